"""Kernels for named pairs of distributions; lane functions of float64 arrays that never see a mechanism."""
