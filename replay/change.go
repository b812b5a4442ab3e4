package replay

// Change is a change to the program itself.
type Change struct{ Name string }

func (p *Program) opsFor(s *Scenario) []op { return p.ops }
