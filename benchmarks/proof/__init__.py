"""What the benchmarks share that judge devfix by programs that are run on simulated CUDA."""
