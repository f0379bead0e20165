package estimate

import (
	"floodmark/account"
	"floodmark/workload"
)

// Resident is the term of something that stays beside the operation, and what it
// holds while the operation runs: unknown where nobody counted it. A model that runs
// forward in the same process is inside the allocator, an engine is not.
func Resident(r workload.Resident) (account.TermID, account.Category, account.Figure) {
	if r.Bytes == (account.Figure{}) {
		return account.TermOtherProcesses, account.CategoryOther, account.Unknown(
			"the bytes of "+r.Name+", which stays resident, are not known", account.Provenance{Origin: account.Assumed, Scope: account.Process})
	}
	if r.Engine != "" {
		return account.TermRolloutEngine, account.CategoryOther, r.Bytes
	}
	return account.TermResidentModels, account.CategoryParameter, r.Bytes
}
