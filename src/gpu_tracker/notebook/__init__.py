"""What ``%load_ext gpu_tracker`` adds to a notebook; only these modules import IPython."""
