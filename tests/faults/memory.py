"""How much memory a process has taken, as the kernel counts it."""

import resource


def restart_peak():
    """Let the kernel measure this process' peak anew; return what is in use, in kB."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return status("VmRSS")


def peak():
    """Return the most memory that was in use since `restart_peak`, in kB."""
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def status(field, process="self"):
    """Return a number of kB that the kernel has on a process, or None where it has no such."""
    try:
        with open(f"/proc/{process}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field))
    except OSError:
        return None
