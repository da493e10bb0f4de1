"""Environments of other packages in worker processes, which share their memory with this one.

The data flow is `source` (make one environment) -> `parts` (its observations as arrays) -> `worker` (a process that
steps a slice of them) -> `pool` (all workers) -> `environment` (one of ours). Workers import none of JAX.
"""
