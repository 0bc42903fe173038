"""accelerate's own test script."""
from program import Program, main, torchrun

main(Program("accelerate", "accelerate", "its test_script.py, 2 ranks",
             torchrun("-m", "accelerate.test_utils.scripts.test_script"),
             results=r"^(\*\*.*|.* passing\.|.*yielded.*|Distributed environment.*|All rng.*)$",
             environment={"ACCELERATE_USE_CPU": "true"}))
