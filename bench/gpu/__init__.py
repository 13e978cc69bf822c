"""What `bench/gpu_check.py` consists of: checks of the operators on a device, and rows G1 to G12.

No module here imports ampcast when it is imported, because the script may still have to build it.
"""
