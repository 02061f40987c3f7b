"""A CUDA report as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.report_tables import process_lines
from gpu_tracker.cuda_probe.report_text import problem_text, report_text
from gpu_tracker.result.cuda_usage import CUDAFailure, CUDAGpu
from gpu_tracker.system.terminal_text import width_of
from support.cuda.cuda_reports import TRAINING, UUID, device, kernel, process, report

TABLES = """\
CUDA calls, seen for 10.0 s through uprobe.multi

 pid  program             launches  launches/s  active %  used cores  streams  memory  max memory  leaked  failed
4242  python -u train.py   123,456      12,346      87.3       4,210        2  1.2 GB      3.4 GB     N/A       2

 pid  launches  launch to sync  threads  kernel
4242   120,000         12.5 ms      256  saxpy(int, float, float*)
4242     3,000           8.7 s      256  scale(float*)
4242       456                           (1 more)

 pid  failed  call        error
4242       2  cudaMalloc  cudaErrorMemoryAllocation (2)

GPU                                       model                  driver  MIG  used as
GPU-8a9e5b0c-1111-2222-3333-444455556666  NVIDIA H100 80GB HBM3  570.86       0 by 4242
"""
FOOTNOTES = """\
* Launch to sync is the time from the first launch on a stream to the next call that waits for this
  stream. It is not GPU time: the GPU may have finished earlier. Active % is the share of the run
  with launch to sync. Used cores is an upper limit of the GPU cores in use.
* Memory is the GPU memory that a program allocated. With PyTorch, it is the size of the memory
  pool.
* gpu-tracker gpus shows GPU memory and utilization as the GPU driver reports them."""


def tables(shown, **options):
    """Return the text without what is said in every one."""
    return report_text(shown, **({'top': 5, 'footnotes': False} | options))


def test_all_that_a_report_tells():
    assert report_text(TRAINING, top=1) == f'{TABLES}\n{FOOTNOTES}'


def test_graphs_and_page_locked_memory_have_columns_where_they_are_used():
    shown = report(
        process(7, name='graphs', launches=30, graph_launches=3, devices=(device(0),)),
        process(8, name='plain', launches=1, host_memory_max=5_000_000, devices=(device(0),)),
    )
    titles, first, second = process_lines(shown.processes, None)
    assert titles.split()[2:4] == ['launches', 'graphs']
    assert titles.endswith('leaked  max page-locked  failed')
    assert first.split()[2:4] == ['30', '3']
    assert second.endswith('   N/A           5.0 MB       0')
    assert 'graphs' not in process_lines(shown.processes[1:], None)[0]


def test_what_is_not_known_is_no_zero():
    shown = report(
        process(
            7,
            name='a.out',
            launches=3,
            launches_per_second=0.3,
            devices=(device(0),),
            kernels=(kernel('?', 3, mean_threads=None),),
        )
    )
    assert tables(shown) == (
        'CUDA calls, seen for 10.0 s through uprobe.multi\n'
        '\n'
        'pid  program  launches  launches/s  active %  used cores  streams  memory  max memory  leaked  failed\n'
        '  7  a.out           3         0.3       N/A         N/A        1     0 B         0 B     N/A       0\n'
        '\n'
        'pid  launches  launch to sync  threads  kernel\n'
        '  7         3             N/A      N/A  ?\n'
        '\n'
        'Which GPUs were used is not known.'
    )


def test_a_program_that_has_ended_and_what_it_leaked():
    shown = report(process(7, ended=True, memory_max=5000, memory_leaked=1500))
    assert tables(shown).splitlines()[-1].split() == (
        ['7', 'python', '(ended)', '0', '0', 'N/A', 'N/A', '1', '0', 'B', '5.0', 'kB', '1.5', 'kB', '0']
    )


def test_each_gpu_of_a_process_that_used_several_has_a_line():
    shown = report(
        process(
            7,
            launches=30,
            launches_per_second=3.0,
            memory_current=3000,
            memory_max=3000,
            devices=(
                device(0, UUID, launches=10, launches_per_second=1.0, memory_current=1000, memory_max=1000),
                device(1, 'MIG-1', launches=20, launches_per_second=2.0, used_cores=17.0, memory_max=2000),
            ),
        ),
        process(8, devices=(device(0, UUID),)),
        process(9, devices=(device(0),)),
        devices=(CUDAGpu('MIG-1', 'nvidia', 'NVIDIA A100', None, '1g.10gb', 896, 10_000_000_000),),
    )
    assert tables(shown) == (
        'CUDA calls, seen for 10.0 s through uprobe.multi\n'
        '\n'
        'pid  program  launches  launches/s  active %  used cores  streams  memory  max memory  leaked  failed\n'
        '  7  python         30         3.0       N/A         N/A        1  3.0 kB      3.0 kB     N/A       0\n'
        '       GPU 0        10         1.0       N/A         N/A           1.0 kB      1.0 kB     N/A\n'
        '       GPU 1        20         2.0       N/A        17.0              0 B      2.0 kB     N/A\n'
        '  8  python          0           0       N/A         N/A        1     0 B         0 B     N/A       0\n'
        '  9  python          0           0       N/A         N/A        1     0 B         0 B     N/A       0\n'
        '\n'
        'GPU                                       model        driver  MIG      used as\n'
        f'{UUID}  N/A          N/A     N/A      0 by 7, 0 by 8\n'
        'MIG-1                                     NVIDIA A100  N/A     1g.10gb  1 by 7\n'
        'Which GPUs were used beside these is not known.'
    )


@pytest.mark.parametrize(
    ('top', 'names'),
    [
        (0, []),
        (1, ['most launched', 'longest', '(3 more)']),
        (2, ['most launched', 'both', 'longest', '(2 more)']),
        (5, ['most launched', 'both', 'a', 'longest', 'unknown']),
    ],
)
def test_the_kernels_shown_are_those_with_the_most_launches_and_those_with_the_most_time(top, names):
    kernels = (
        kernel('most launched', 90, 0.1),
        kernel('both', 80, 5.0),
        kernel('a', 70, 0.2),
        kernel('longest', 3, 6.0),
        kernel('unknown', 2, None),
    )
    lines = tables(report(process(7, kernels=kernels)), top=top).splitlines()[5:]
    assert [line[40:] for line in lines[1:]] == names


def test_the_rest_of_the_kernels_has_the_launches_that_the_process_has_beside_those_shown():
    kernels = (kernel('most launched', 90, 0.1), kernel('a', 70, 0.2))
    shown = report(process(7, launches=500, kernels=kernels, kernels_total=340))
    assert tables(shown, top=1).splitlines()[6:] == [
        '  7        90        100.0 ms      256  most launched',
        '  7        70        200.0 ms      256  a',
        '  7       340                           (338 more)',
    ]


def test_kernels_that_differ_in_their_address_alone_are_shown_each():
    kernels = (kernel('same', 5, 1.0, address=1), kernel('same', 5, 1.0, address=2))
    assert tables(report(process(7, kernels=kernels))).count('same') == 2


def test_nothing_was_seen_and_so_there_are_no_figures_to_explain():
    assert report_text(report(notes=('No process has a CUDA library.',)), top=5, width=60) == (
        'CUDA calls, seen for 10.0 s through uprobe.multi\n\nNo CUDA call was seen.\n\n* No process has a CUDA library.'
    )


def test_what_is_missing_comes_first_among_the_remarks():
    shown = report(process(7), notes=('Ten of 100 events came too fast to be read.', 'Names of kernels are missing.'))
    assert report_text(shown, top=5).splitlines()[5:8] == [
        '* Ten of 100 events came too fast to be read.',
        '* Names of kernels are missing.',
        '* Launch to sync is the time from the first launch on a stream to the next call that waits for this',
    ]


def test_the_rates_of_the_last_moment_are_told_as_such():
    assert tables(report(), rates_of=1.0).splitlines()[0] == (
        'CUDA calls, seen for 10.0 s through uprobe.multi; rates of the last 1.0 s'
    )


def test_what_strangers_have_named_commands_no_terminal():
    hostile = '\x1b]0;title\x07\n\u202eevil'
    shown = report(
        process(
            7,
            command=hostile,
            kernels=(kernel(hostile, 1),),
            failures=(CUDAFailure(hostile, 1, hostile, 1),),
            devices=(device(0, 'GPU-1'),),
        ),
        engine=hostile,
        devices=(CUDAGpu('GPU-1', 'nvidia', hostile, hostile, hostile, None, None),),
        notes=(hostile,),
    )
    text = tables(shown)
    assert text.replace('\n', '').isprintable()
    assert text.count('?]0;title???evil') == 9
    assert problem_text('a\x1b[2J') == 'a?[2J'


def test_a_long_command_line_leaves_the_table_readable():
    lines = tables(report(process(7, command='python ' + 'x' * 5000))).splitlines()
    assert max(map(len, lines)) < 160
    assert 'python xxx' in lines[3]
    assert '…' in lines[3]


ENDED = report(
    process(
        4242,
        command='/opt/conda/bin/python -u train.py',
        ended=True,
        launches=1_234_567,
        launches_per_second=12_345.6,
        active_percent=99.7,
        memory_max=920_000_000,
        memory_leaked=800_000_000,
    )
)


@pytest.mark.parametrize(
    ('width', 'lines'),
    [
        (
            100,
            [
                ' pid  program      launches  launches/s  active %  used cores  streams  memory  max memory    leaked',
                '4242  python -u…  1,234,567      12,346      99.7         N/A        1     0 B    920.0 MB  800.0 MB',
                '(1 column left out: widen the terminal, or --json)',
            ],
        ),
        (
            80,
            [
                ' pid  program       launches  launches/s  active %  memory  max memory    leaked',
                '4242  python -u …  1,234,567      12,346      99.7     0 B    920.0 MB  800.0 MB',
                '(3 columns left out: widen the terminal, or --json)',
            ],
        ),
        (
            40,
            [
                ' pid  program           launches  memory',
                '4242  python -u trai…  1,234,567     0 B',
                '(7 columns left out: widen the terminal,',
                'or --json)',
            ],
        ),
    ],
)
def test_a_narrow_terminal_shortens_the_program_and_then_leaves_out_columns(width, lines):
    assert tables(ENDED, width=width).partition('\n\n')[2].splitlines() == lines


def test_the_title_is_never_cut():
    assert tables(report(), width=40).splitlines()[:2] == ['CUDA calls, seen for 10.0 s through', 'uprobe.multi']


def test_a_program_keeps_its_folder_where_there_is_room():
    assert '  /opt/conda/bin/python -u train.py (ended)  ' in tables(ENDED, width=140)
    assert 'left out' not in tables(ENDED, width=140)


def test_calls_that_went_to_an_unknown_gpu_of_a_process_have_a_question_mark():
    text = tables(report(process(7, devices=(device(0, UUID), device(None, UUID)))))
    assert '\n       GPU ?  ' in text
    assert text.endswith('0 by 7, ? by 7')


names = st.text(max_size=30)
counts = st.integers(min_value=0, max_value=2**63)
figures = st.none() | st.floats(min_value=0, max_value=1e15)


@given(st.integers(min_value=1, max_value=200), names, counts, figures, figures)
def test_no_line_is_wider_than_the_terminal(width, name, number, figure, seconds):
    shown = replace(
        TRAINING,
        processes=(
            process(
                number,
                command=name,
                launches=number,
                launches_per_second=figure or 0.0,
                active_percent=figure,
                used_cores=figure,
                memory_current=number,
                devices=(device(0, UUID, used_cores=figure), device(1)),
                kernels=(kernel(name, number, seconds),),
                failures=(CUDAFailure(name, number, name, number),),
            ),
        ),
        notes=(name,),
    )
    text = report_text(shown, top=5, width=width, footnotes=False)
    assert all(width_of(line) <= width for line in text.splitlines())
    assert not any(line.endswith(' ') for line in text.splitlines())
