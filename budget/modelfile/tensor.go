package modelfile

// Role is what a weight is for.
type Role string

// Roles of weights.
const (
	RoleEmbedding Role = "embedding"
	RolePosition  Role = "position"
	RoleAttention Role = "attention"
	RoleMLP       Role = "mlp"
	RoleExpert    Role = "expert"
	RoleShared    Role = "shared_expert"
	RoleRouter    Role = "router"
	RoleNorm      Role = "norm"
	RoleSSM       Role = "ssm"
	RoleVision    Role = "vision"
	RoleHead      Role = "head"
	RoleOther     Role = "other"
)

// Tensor is one weight as Transformers allocates it.
type Tensor struct {
	Name  string
	Shape []int64
	Role  Role
	// Buffer marks what the optimizer never sees.
	Buffer bool
	Dtype  string // in a checkpoint, as safetensors calls it; a configuration has none
}

// Elements is the number of elements.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}
