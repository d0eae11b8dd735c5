"""Rewards in the call signatures of other trainers."""
