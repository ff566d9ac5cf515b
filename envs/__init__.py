"""The simulator: ground-truth log, protocol view, tasks, policies, scoring. Imports no other folder of the project."""
