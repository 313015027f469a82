"""Mutants of a kernel: small faults put into its `.cu`, to learn whether the check of the lab would notice them."""
