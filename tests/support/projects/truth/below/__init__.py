import builtins

builtins.TRUTH_BELOW = 2
