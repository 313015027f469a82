"""Launch parameters: Kernel Tuner searches, the lab judges its finalists, and a file keeps the winner."""
