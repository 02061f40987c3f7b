"""What the tests stand on: stand-ins for drivers and machines, programs that they measure, servers and clients."""
