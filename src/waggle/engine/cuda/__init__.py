"""What only a GPU needs: kernels, their self-check, CUDA graphs, decoding on the device."""
