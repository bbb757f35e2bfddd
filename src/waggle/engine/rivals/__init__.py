"""Other libraries that decode the same prompts on a CPU, for `waggle bench engine --rivals`."""
