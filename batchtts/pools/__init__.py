"""What starts workers: on this machine, or on a cluster."""
