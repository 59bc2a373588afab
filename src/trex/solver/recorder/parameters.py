"""Parameters and environments. Only TimeLimit changes what `optimize` does; LazyConstraints makes it refuse."""

from typing import Any

from trex.solver.recorder.errors import GurobiError
from trex.solver.recorder.operand import number

# name=default of every parameter that concerns a model
DEFAULTS = """
AggFill=-1 Aggregate=1 BQPCuts=-1 BarConvTol=1e-08 BarCorrectors=-1 BarHomogeneous=-1 BarIterLimit=1000 BarOrder=-1
BarQCPConvTol=1e-06 BestBdStop=inf BestObjStop=-inf BranchDir=0 CliqueCuts=-1 ConcurrentJobs=0 ConcurrentMIP=1
ConcurrentMethod=-1 CoverCuts=-1 Crossover=-1 CrossoverBasis=-1 CutAggPasses=-1 CutPasses=-1 Cutoff=inf Cuts=-1
DegenMoves=-1 DisplayInterval=5 DualImpliedCuts=-1 DualReductions=1 FeasRelaxBigM=1000000.0 FeasibilityTol=1e-06
FixVarsInIndicators=0 FlowCoverCuts=-1 FlowPathCuts=-1 FuncMaxVal=1000000.0 FuncNonlinear=1 FuncPieceError=0.001
FuncPieceLength=0.01 FuncPieceRatio=-1.0 FuncPieces=0 GUBCoverCuts=-1 GomoryPasses=-1 Heuristics=0.05 IISMethod=-1
IgnoreNames=0 ImpliedCuts=-1 ImproveStartGap=0.0 ImproveStartNodes=inf ImproveStartTime=inf ImproveStartWork=inf
InfProofCuts=-1 InfUnbdInfo=0 InheritParams=-1 IntFeasTol=1e-05 IntegralityFocus=0 IterationLimit=inf JSONSolDetail=0
LPWarmStart=-1 LazyConstraints=0 LiftProjectCuts=-1 LogFile='' LogToConsole=1 MIPFocus=0 MIPGap=0.0001 MIPGapAbs=1e-10
MIPSepCuts=-1 MIQCPMethod=-1 MIRCuts=-1 MarkowitzTol=0.0078125 MasterKnapsackCuts=-1 MemLimit=inf Method=-1
MinRelNodes=-1 MixingCuts=-1 ModKCuts=-1 MultiObjMethod=-1 MultiObjPre=-1 NLBarCFeasTol=1e-08 NLBarDFeasTol=1e-06
NLBarIterLimit=1000 NLBarPFeasTol=1e-06 NLPHeur=-1 NetworkAlg=-1 NetworkCuts=-1 NoRelHeurSolutions=0 NoRelHeurTime=0.0
NoRelHeurWork=0.0 NodeLimit=inf NodeMethod=-1 NodefileDir='.' NodefileStart=inf NonConvex=-1 NormAdjust=-1
NumericFocus=0 OBBT=-1 ObjNumber=0 ObjPassNumber=-1 ObjScale=0.0 OptimalityTarget=-1 OptimalityTol=1e-06 OutputFlag=1
PDHGAbsTol=1e-06 PDHGConvTol=1e-06 PDHGGPU=0 PDHGIterLimit=inf PDHGRelTol=1e-06 PSDCuts=-1 PSDTol=1e-06
PartitionPlace=15 PerturbValue=0.0002 PoolGap=inf PoolGapAbs=inf PoolSearchMode=0 PoolSolutions=10 PreCrush=0
PreDepRow=-1 PreDual=-1 PreMIQCPForm=-1 PrePasses=-1 PreQLinearize=-1 PreSOS1BigM=-1.0 PreSOS1Encoding=-1
PreSOS2BigM=-1.0 PreSOS2Encoding=-1 PreSparsify=-1 Presolve=-1 ProjImpliedCuts=-1 PumpPasses=-1 QCPDual=0 Quad=-1
RINS=-1 RLTCuts=-1 RelaxLiftCuts=-1 ResultFile='' ScaleFlag=-1 ScenarioNumber=0 Seed=0 SiftMethod=-1 Sifting=-1
SimplexPricing=-1 SoftMemLimit=inf SolFiles='' SolutionLimit=2000000000 SolutionNumber=0 SolutionTarget=-1
StartNodeLimit=-1 StartNumber=0 StartTimeLimit=inf StartWorkLimit=inf StrongCGCuts=-1 SubMIPCuts=-1 SubMIPNodes=500
Symmetry=-1 ThreadLimit=0 Threads=0 TimeLimit=inf UpdateMode=1 VarBranch=-1 WorkLimit=inf ZeroHalfCuts=-1
ZeroObjNodes=-1
"""
ACCESS = ("cs", "cloud", "wls", "server", "worker", "tokenserver", "computeserver", "licenseid", "username", "record")
TABLE = {name.lower(): (name, value) for name, _, value in (item.partition("=") for item in DEFAULTS.split())}
UNKNOWN, OUT_OF_RANGE = 10007, 10008
LEAST = {"timelimit": 0.0, "mipgap": 0.0, "threads": 0.0}


def default(name: str) -> Any:
    """A parameter's default: a text, a whole number or a number, which is its type too."""
    value = TABLE[name.lower()][1]
    if value.startswith("'"):
        return value.strip("'")
    return int(value) if value.lstrip("-").isdigit() else float(value)


class Params:
    """Parameters of an environment or a model, in any case of letters; unknown ones raise."""

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        object.__setattr__(self, "_values", dict(values or {}))

    def set(self, name: Any, value: Any) -> None:
        """Change one; "default" restores it. Raises GurobiError for an unknown name, TypeError for another type."""
        key = str(name).lower()
        if key.startswith(ACCESS):
            return  # of licences, which nothing here needs
        if key not in TABLE and key.startswith("tune"):
            return
        if key not in TABLE:
            raise GurobiError(UNKNOWN, f"Unknown parameter '{name}'")
        usual = default(key)
        if isinstance(value, str) and value.lower() == "default":
            self._values.pop(key, None)
            return
        if isinstance(usual, str):
            if not isinstance(value, str):
                raise TypeError(f"parameter {name} must be str, not {type(value).__name__}")
            self._values[key] = value
            return
        given = number(value)
        if given is None or given != given:
            raise TypeError(f"parameter {name} must be real number, not {value!r}")
        if given < LEAST.get(key, given):
            raise GurobiError(OUT_OF_RANGE, f"Unable to set parameter {TABLE[key][0]} to value {value} (minimum is 0)")
        whole = isinstance(usual, int) and abs(given) <= 2**31
        self._values[key] = int(given) if whole else given

    def value(self, name: Any) -> Any:
        """One value. Raises GurobiError for an unknown name."""
        key = str(name).lower()
        if key not in TABLE:
            raise GurobiError(UNKNOWN, f"Unknown parameter '{name}'")
        return self._values.get(key, default(key))

    def reset(self) -> None:
        """Restore all."""
        self._values.clear()

    def copied(self) -> "Params":
        """Parameters with the same values, to be changed on their own."""
        return Params(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name.lower() not in TABLE:
            raise AttributeError(f"No parameter named '{name}'")
        return self.value(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.set(name, value)


class Env:
    """An environment: the parameters with which its models begin. No licence is asked for, nothing is logged."""

    def __init__(self, logfilename: str = "", empty: bool = False, params: dict[str, Any] | None = None) -> None:
        self._values = Params()
        for name, value in (params or {}).items():
            self._values.set(name, value)

    def setParam(self, paramname: Any, newvalue: Any) -> None:
        """Change a parameter. Raises GurobiError for an unknown name, TypeError for another type."""
        self._values.set(paramname, newvalue)

    def getParam(self, paramname: Any) -> Any:
        """A parameter's value. Raises GurobiError for an unknown name."""
        return self._values.value(paramname)

    def resetParams(self) -> None:
        """Restore all parameters."""
        self._values.reset()

    def start(self) -> None:
        """Nothing: there is no licence to fetch."""

    def close(self) -> None:
        """Nothing is held."""

    dispose = close

    def __enter__(self) -> "Env":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
