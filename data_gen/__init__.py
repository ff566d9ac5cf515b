"""Trajectories for SFT and probes for RL and evaluation, made by the scripted expert in the simulator. ``python -m data_gen CONFIG``."""
