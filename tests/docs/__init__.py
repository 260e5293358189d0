"""Tests of documentation pages whose code is run."""
