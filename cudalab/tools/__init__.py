"""Tools on the engine: one folder each, and no tool imports another."""
