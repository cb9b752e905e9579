"""Tests of a controller without wasm and without a cluster."""

from .cluster import FakeCluster, Run
from .views import RunEnded

__all__ = ["FakeCluster", "Run", "RunEnded"]
