"""What all tests share."""

from hypothesis import HealthCheck, settings

# A slow machine is no fault of the code: how long an example takes is judged by nobody, what it finds is.
settings.register_profile("alula", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("alula")
