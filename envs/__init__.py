"""The simulator: ground-truth log, protocol view, tasks, policies, scoring. Imports no other folder of the project."""

import os

# Read once, when torch loads its OpenMP runtime: spinning threads beside a busy neighbour cost up to nine tenths of the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
