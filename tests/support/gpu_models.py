"""What the fake driver says about a model of GPU that is well and idle."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model.

    Attributes
    ----------
    name : str
        What NVIDIA calls it.
    values : dict of str to str
        Its part of the state.
    """

    name: str
    values: dict[str, str] = field(default_factory=dict)


#: What all of them say.
_COMMON = {
    "compute_mode": "0",
    "nvmlDeviceGetPersistenceMode": "1",
    "nvmlDeviceGetPerformanceState": "0",
    "nvmlDeviceGetUtilizationRates": "0 0",
    "nvmlDeviceGetEncoderUtilization": "0 167000",
    "nvmlDeviceGetDecoderUtilization": "0 167000",
    "nvmlDeviceGetJpgUtilization": "0 167000",
    "nvmlDeviceGetOfaUtilization": "0 167000",
    "nvmlDeviceGetCurrentClocksEventReasons": "1",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "1",
    "nvmlDeviceGetSupportedClocksEventReasons": "511",
    "nvmlDeviceGetSupportedEventTypes": "25",
}

#: What those for data centres say.
_DATA_CENTRE = _COMMON | {
    "nvmlDeviceGetTemperature": "34",
    "nvmlDeviceGetTemperatureThreshold.0": "92",
    "nvmlDeviceGetTemperatureThreshold.1": "89",
    "nvmlDeviceGetTemperatureThreshold.2": "95",
    "nvmlDeviceGetTemperatureThreshold.3": "85",
    "nvmlDeviceGetPowerUsage": "71000",
    "nvmlDeviceGetNumFans": "0",
    "nvmlDeviceGetBAR1MemoryInfo": f"{128 * 2**30} {2**20}",
    "nvmlDeviceGetTotalEnergyConsumption": "4711000000",
    "nvmlDeviceGetEccMode": "1 1",
    "nvmlDeviceGetTotalEccErrors": "0",
    "nvmlDeviceGetMemoryErrorCounter": "0",
    "nvmlDeviceGetRemappedRows": "0 0 0 0",
    "nvmlDeviceGetRowRemapperHistogram": "640 0 0 0 0",
    "nvmlDeviceGetPcieReplayCounter": "0",
    "nvmlDeviceGetCurrPcieLinkWidth": "16",
    "nvmlDeviceGetMaxPcieLinkWidth": "16",
    "nvmlDeviceGetPcieThroughput": "0",
    "nvmlDeviceGetNvLinkState": "1",
    "nvmlDeviceGetNvLinkErrorCounter": "0",
    "nvmlDeviceGetMigMode": "0 0",
    "nvmlDeviceGetMaxMigDeviceCount": "7",
    "nvmlDeviceGetMemoryLimits_v1": "1",
    "nvmlDeviceSetMemoryLimits_v1": "1",
    "field.82": "36",
    "field.230": "0",
}

A100 = Model(
    name="NVIDIA A100-SXM4-80GB",
    values=_DATA_CENTRE
    | {
        "memory.total": str(80 * 2**30),
        "memory.reserved": str(635 * 2**20),
        "nvmlDeviceGetCudaComputeCapability": "8 0",
        "cc": "8.0",
        "multiprocessors": "108",
        "nvmlDeviceGetNumGpuCores": "6912",
        "nvmlDeviceGetMemoryBusWidth": "5120",
        "nvmlDeviceGetPowerManagementLimit": "400000",
        "nvmlDeviceGetEnforcedPowerLimit": "400000",
        "nvmlDeviceGetPowerManagementDefaultLimit": "400000",
        "nvmlDeviceGetPowerManagementLimitConstraints": "100000 400000",
        "nvmlDeviceGetCurrPcieLinkGeneration": "4",
        "nvmlDeviceGetMaxPcieLinkGeneration": "4",
        "nvmlDeviceGetClockInfo": "210",
        "nvmlDeviceGetMaxClockInfo.0": "1410",
        "nvmlDeviceGetMaxClockInfo.1": "1410",
        "nvmlDeviceGetMaxClockInfo.2": "1593",
        "nvmlGpmQueryDeviceSupport": "0",
    },
)

H100 = Model(
    name="NVIDIA H100 80GB HBM3",
    values=_DATA_CENTRE
    | {
        "memory.total": str(81559 * 2**20),
        "memory.reserved": str(551 * 2**20),
        "nvmlDeviceGetCudaComputeCapability": "9 0",
        "cc": "9.0",
        "multiprocessors": "132",
        "nvmlDeviceGetNumGpuCores": "16896",
        "nvmlDeviceGetMemoryBusWidth": "5120",
        "nvmlDeviceGetPowerManagementLimit": "700000",
        "nvmlDeviceGetEnforcedPowerLimit": "700000",
        "nvmlDeviceGetPowerManagementDefaultLimit": "700000",
        "nvmlDeviceGetPowerManagementLimitConstraints": "200000 700000",
        "nvmlDeviceGetCurrPcieLinkGeneration": "5",
        "nvmlDeviceGetMaxPcieLinkGeneration": "5",
        "nvmlDeviceGetClockInfo": "345",
        "nvmlDeviceGetMaxClockInfo.0": "1980",
        "nvmlDeviceGetMaxClockInfo.1": "1980",
        "nvmlDeviceGetMaxClockInfo.2": "2619",
        "nvmlGpmQueryDeviceSupport": "1",
        "fabric": "3 0 0",
    },
)

#: Its memory is the system's, so the driver tells nothing about it.
GB10 = Model(
    name="NVIDIA GB10",
    values=_COMMON
    | {
        "memory": "!3",
        "nvmlDeviceGetTemperature": "41",
        "nvmlDeviceGetPowerUsage": "11000",
        "nvmlDeviceGetCudaComputeCapability": "12 1",
        "cc": "12.1",
        "multiprocessors": "48",
        "nvmlDeviceGetNumGpuCores": "6144",
        "nvmlDeviceGetClockInfo": "208",
        "nvmlDeviceGetMaxClockInfo": "3003",
        "nvmlDeviceGetMigMode": "!3",
    },
)

#: For gamers: no ECC, no MIG, no NVLink, no memory limits.
RTX4090 = Model(
    name="NVIDIA GeForce RTX 4090",
    values=_COMMON
    | {
        "memory.total": str(24564 * 2**20),
        "memory.reserved": str(382 * 2**20),
        "nvmlDeviceGetTemperature": "39",
        "nvmlDeviceGetTemperatureThreshold.0": "100",
        "nvmlDeviceGetTemperatureThreshold.1": "97",
        "nvmlDeviceGetPowerUsage": "24000",
        "nvmlDeviceGetEnforcedPowerLimit": "450000",
        "nvmlDeviceGetPowerManagementDefaultLimit": "450000",
        "nvmlDeviceGetFanSpeed": "30",
        "nvmlDeviceGetNumFans": "2",
        "nvmlDeviceGetCudaComputeCapability": "8 9",
        "cc": "8.9",
        "multiprocessors": "128",
        "nvmlDeviceGetNumGpuCores": "16384",
        "nvmlDeviceGetClockInfo": "210",
        "nvmlDeviceGetMaxClockInfo": "3105",
        "nvmlDeviceGetCurrPcieLinkGeneration": "4",
        "nvmlDeviceGetMaxPcieLinkGeneration": "4",
        "nvmlDeviceGetCurrPcieLinkWidth": "16",
        "nvmlDeviceGetMaxPcieLinkWidth": "16",
        "nvmlDeviceGetPcieReplayCounter": "0",
    },
)
