"""Kinds of operators by their names in ggml and ONNX: which work of `Costs` each is."""

from __future__ import annotations

MATRIX, ATTENTION, NORM, SOFTMAX, GATE, ELEMENTS, COPY, NOTHING = (
    "matrix", "attention", "norm", "softmax", "gate", "elements", "copy", "nothing",
)  # fmt: skip

RATE = {NORM: "hvx_rmsnorm", SOFTMAX: "hvx_softmax", GATE: "hvx_swiglu", ELEMENTS: "hvx_add"}
"""The rate of vector work; what has none of its own is as fast as an addition, or as a gate where it needs an exp."""

GGML = {
    "MUL_MAT": MATRIX,
    "MUL_MAT_ID": MATRIX,
    "FLASH_ATTN_EXT": ATTENTION,
    "SOFT_MAX": SOFTMAX,
    **dict.fromkeys(("RMS_NORM", "NORM", "L2_NORM", "GROUP_NORM"), NORM),
    **dict.fromkeys(("GLU", "SWIGLU", "GEGLU", "SILU", "GELU", "SIGMOID", "EXP", "TANH"), GATE),
    **dict.fromkeys(("CPY", "CONT", "CONCAT", "SET_ROWS", "GET_ROWS", "DUP", "REPEAT", "PAD", "SET"), COPY),
    **dict.fromkeys(("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "NONE"), NOTHING),
}
"""The first part of a fused name counts; all others are elementwise."""

ONNX = {
    **dict.fromkeys(
        ("MatMul", "Gemm", "Conv", "ConvTranspose", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv",
         "MatMulNBits", "FusedConv", "FusedMatMul"),
        MATRIX,
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), SOFTMAX),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization",
         "SkipSimplifiedLayerNormalization", "InstanceNormalization", "GroupNormalization", "BatchNormalization",
         "LpNormalization", "MeanVarianceNormalization", "LRN"),
        NORM,
    ),
    **dict.fromkeys(
        ("Sigmoid", "Tanh", "Erf", "Gelu", "Exp", "Mish", "Softplus", "Elu", "Selu", "Celu", "HardSwish", "Log", "Sin",
         "Cos", "Swish", "QuickGelu", "FastGelu", "BiasGelu"),
        GATE,
    ),
    **dict.fromkeys(
        ("Concat", "Slice", "Split", "Transpose", "Gather", "GatherND", "GatherElements", "Scatter", "ScatterND",
         "ScatterElements", "Pad", "Tile", "Expand", "DepthToSpace", "SpaceToDepth", "Cast", "ConstantOfShape",
         "Range", "OneHot", "Compress", "ReverseSequence"),
        COPY,
    ),
    **dict.fromkeys(
        ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Constant", "Shape", "Size", "Dropout"),
        NOTHING,
    ),
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "Where", "PRelu", "Relu", "LeakyRelu", "Clip",
         "Abs", "Neg", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Not", "And", "Or", "Xor", "Equal",
         "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Mod", "HardSigmoid", "ThresholdedRelu", "MaxPool",
         "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax",
         "ReduceMin", "ReduceProd", "ReduceL2", "ArgMax", "ArgMin", "TopK", "CumSum", "Resize", "Upsample",
         "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Einsum"),
        ELEMENTS,
    ),
}  # fmt: skip
