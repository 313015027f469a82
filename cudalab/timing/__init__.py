"""Times: CUDA events, graphs, the wall clock, and the rounds in which samples are taken."""
