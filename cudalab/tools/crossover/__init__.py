"""From which size on is one variant faster than another?"""
