"""What everything else stands on: errors, text, files, the cache, threads, child processes, statistics."""
