"""What hosts are called."""

from gpu_tracker.fleet.hosts.host import Known, names


def test_a_host_goes_by_its_name():
    assert names({0: Known('node01', 'a:1080'), 1: Known('node02', 'b:1080')}) == {0: 'node01', 1: 'node02'}


def test_hosts_of_one_name_are_told_apart_by_where_they_are():
    assert names(
        {
            'a': Known('vm', 'localhost:21080'),
            'b': Known('vm', 'localhost:21081'),
            'c': Known('node03', 'node03:1080'),
            'd': Known('vm', 'self'),
        }
    ) == {'a': 'vm (localhost:21080)', 'b': 'vm (localhost:21081)', 'c': 'node03', 'd': 'vm (self)'}


def test_a_host_whose_name_is_not_known_goes_by_its_place():
    assert names({0: Known(None, 'a:1080'), 1: Known(None, 'b:1080')}) == {0: 'a:1080', 1: 'b:1080'}


def test_no_host_needs_no_name():
    assert names({}) == {}
