"""Imported by others."""
