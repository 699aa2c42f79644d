/* toolkit.h - what we use of the CUDA runtime and driver, cuBLAS and cublasLt, cuDNN, NVRTC, NCCL and NVML.
 *
 * With the toolkit's headers (MQ_CUDA_HEADERS) the declarations are theirs and every use is type-checked against them;
 * without, the few that are needed are declared here with the same names, so the executor builds anywhere and opens the
 * libraries at run time all the same. The values are part of NVIDIA's ABI. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_TOOLKIT_H
#define MQ_VALIDATOR_TOOLKIT_H

#include <stddef.h>
#include <stdint.h>

#define MQ_DECLARE(result, name, ...) result name(__VA_ARGS__);
#ifdef MQ_CUDA_HEADERS
#include <cuda_runtime_api.h>
#include <cublas_v2.h>
#else
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaMemcpyKind {
	cudaMemcpyHostToHost,
	cudaMemcpyHostToDevice,
	cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice,
	cudaMemcpyDefault
};
enum {
	cudaSuccess = 0,
	cudaErrorMemoryAllocation = 2,
	cudaErrorStubLibrary = 34,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorNotReady = 600
};
enum { cudaStreamNonBlocking = 1 };
enum cudaDeviceAttr {
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76
};
enum { cudaHostRegisterDefault = 0 };
typedef void (*cudaHostFn_t)(void *data);

typedef int cublasStatus_t;
typedef struct cublasContext *cublasHandle_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
	CUDA_R_32F = 0,
	CUDA_R_64F = 1,
	CUDA_R_16F = 2,
	CUDA_R_16BF = 14,
	CUDA_R_8F_E4M3 = 28,
	CUDA_R_8F_E5M2 = 29
} cudaDataType;
typedef enum {
	CUBLAS_COMPUTE_32F = 68,
	CUBLAS_COMPUTE_64F = 70,
	CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
#define CUDART MQ_DECLARE
#define CUBLAS MQ_DECLARE
#include "cuda/toolkit.def"
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<nccl.h>)
#include <nccl.h>
#else
typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
typedef enum { ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9, ncclInt8 = 0 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;
enum { ncclSuccess = 0, ncclInProgress = 7 };
#define NCCL MQ_DECLARE
#include "cuda/toolkit.def"
#endif

/* Since CUDA 12.5, whose headers say the same. */
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t ta[],
					  const cublasOperation_t tb[], const int m[], const int n[], const int k[],
					  const void *alpha, const void *const a[], cudaDataType ta_type,
					  const int lda[], const void *const b[], cudaDataType tb_type, const int ldb[],
					  const void *beta, void *const c[], cudaDataType tc_type, const int ldc[],
					  int groups, const int size[], cublasComputeType_t compute);

/* cublasLt, cuDNN, NVRTC and the driver: opened only by schedules that ask for them. */
#if defined(MQ_CUDA_HEADERS) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#else
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtPreference *cublasLtMatmulPreference_t;
typedef struct {
	uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
	float wavesCount;
	int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef enum {
	CUBLASLT_MATMUL_DESC_TRANSA = 3,
	CUBLASLT_MATMUL_DESC_TRANSB = 4,
	CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
	CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
	CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25
} cublasLtMatmulDescAttributes_t;
typedef enum {
	CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
	CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
typedef enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 } cublasLtMatmulPreferenceAttributes_t;
#define CUBLASLT MQ_DECLARE
#include "cuda/toolkit.def"
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<cudnn.h>)
#include <cudnn.h>
#else
typedef int cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef enum {
	CUDNN_DATA_FLOAT = 0,
	CUDNN_DATA_DOUBLE = 1,
	CUDNN_DATA_HALF = 2,
	CUDNN_DATA_INT32 = 4,
	CUDNN_DATA_BFLOAT16 = 9,
	CUDNN_DATA_BOOLEAN = 11
} cudnnDataType_t;
typedef enum { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 } cudnnTensorFormat_t;
typedef enum { CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 } cudnnMathType_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t;
typedef struct {
	int algo;
	cudnnStatus_t status;
	float time;
	size_t memory;
	int determinism;
	cudnnMathType_t mathType;
	int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdFilterAlgoPerf_t;
typedef void *cudnnBackendDescriptor_t;
typedef enum { CUDNN_REDUCE_TENSOR_ADD = 0, CUDNN_REDUCE_TENSOR_MAX = 3 } cudnnReduceTensorOp_t;
typedef enum {
	CUDNN_POINTWISE_ADD = 0,
	CUDNN_POINTWISE_MUL = 1,
	CUDNN_POINTWISE_DIV = 6,
	CUDNN_POINTWISE_SUB = 9,
	CUDNN_POINTWISE_EXP = 13,
	CUDNN_POINTWISE_LOG = 15,
	CUDNN_POINTWISE_IDENTITY = 21,
	CUDNN_POINTWISE_CMP_GE = 303,
	CUDNN_POINTWISE_GEN_INDEX = 501,
	CUDNN_POINTWISE_BINARY_SELECT = 601
} cudnnPointwiseMode_t;
typedef enum { CUDNN_HEUR_MODE_A = 3 } cudnnBackendHeurMode_t;
typedef enum {
	CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
	CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
	CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
	CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
	CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
	CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
	CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
	CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
	CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
	CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
	CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
	CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
	CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31
} cudnnBackendDescriptorType_t;
typedef enum {
	CUDNN_ATTR_POINTWISE_MODE = 0,
	CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
	CUDNN_ATTR_POINTWISE_AXIS = 9,
	CUDNN_ATTR_ENGINEHEUR_MODE = 200,
	CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
	CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
	CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
	CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
	CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
	CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
	CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
	CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
	CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
	CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
	CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
	CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
	CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
	CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
	CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
	CUDNN_ATTR_TENSOR_STRIDES = 903,
	CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
	CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
	CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
	CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
	CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
	CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
	CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
	CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
	CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
	CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
	CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
	CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
	CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
	CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
	CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
	CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
	CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
	CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201
} cudnnBackendAttributeName_t;
typedef enum {
	CUDNN_TYPE_HANDLE = 0,
	CUDNN_TYPE_DATA_TYPE = 1,
	CUDNN_TYPE_BOOLEAN = 2,
	CUDNN_TYPE_INT64 = 3,
	CUDNN_TYPE_VOID_PTR = 6,
	CUDNN_TYPE_HEUR_MODE = 8,
	CUDNN_TYPE_POINTWISE_MODE = 14,
	CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
	CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18
} cudnnBackendAttributeType_t;
#define CUDNN MQ_DECLARE
#include "cuda/toolkit.def"
#endif

#if defined(MQ_CUDA_HEADERS) && __has_include(<nvrtc.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <nvrtc.h>
#else
typedef int CUresult, nvrtcResult;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct nvrtcProgramOpaque *nvrtcProgram;
#define NVRTC  MQ_DECLARE
#define DRIVER MQ_DECLARE
#include "cuda/toolkit.def"
#endif

/* NVML's nvmlPciInfo_t. */
struct mq_nvml_pci {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
};
enum { MQ_NVLINK_SWITCH = 2 }; /* NVML's nvmlIntNvLinkDeviceType_t */

#define MQ_POINTER(result, name, ...) __typeof__(name) *name;
struct mq_toolkit {
#define CUDART MQ_POINTER
#define CUBLAS MQ_POINTER
#define NCCL   MQ_POINTER
/* NULL where no schedule asks for them, or none is there. */
#define CUBLASLT                MQ_POINTER
#define CUDNN                   MQ_POINTER
#define NVRTC                   MQ_POINTER
#define DRIVER                  MQ_POINTER
#define NVML(result, name, ...) result (*name)(__VA_ARGS__);
#include "cuda/toolkit.def"
	__typeof__(cublasGemmGroupedBatchedEx) *cublasGemmGroupedBatchedEx; /* NULL before CUDA 12.5 */
};

#endif
