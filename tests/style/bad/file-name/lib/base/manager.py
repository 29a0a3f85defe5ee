a = 1  # BAD
