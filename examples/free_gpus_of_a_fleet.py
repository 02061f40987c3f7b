"""Print the free GPUs of each host, as an agent or a dashboard reports them.

python examples/free_gpus_of_a_fleet.py [ADDRESS]: ADDRESS is 127.0.0.1:1081 by default, a dashboard on this machine.
"""

from __future__ import annotations

import http.client
import json
import sys

connection = http.client.HTTPConnection(sys.argv[1] if len(sys.argv) > 1 else '127.0.0.1:1081', timeout=10)
connection.request('GET', '/api/v1/fleet')
for host in json.load(connection.getresponse())['hosts']:
    if host['state'] == 'up':  # a host that is down has only old figures
        free = [f'{gpu["index"]} ({gpu["type"]})' for gpu in host['gpus'] if gpu['status'] == 'free']
        print(f'{host["name"]}:', ', '.join(free) or 'none')
