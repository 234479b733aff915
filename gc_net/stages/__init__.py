"""Stages of a training: what each needs, how it is built and what it leaves."""
