"""Auxiliary data: parameters of which a UDF sees the part that belongs to what it processes."""

from __future__ import annotations

from framefold.common.buffers import AuxBufferWrapper

__all__ = ["AuxBufferWrapper"]
