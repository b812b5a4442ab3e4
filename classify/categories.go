package classify

func (a *analysis) findCategories() {}
