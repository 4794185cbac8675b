"""Whether a GPU is healthy: indicators (pure), a monitor with hysteresis (pure), and a listener for XIDs.

Rule of this package: nothing marks a device for ever; what was bad and is good again comes back by itself.
"""
