// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
)

// DepartureState is the fate of a member of a global service that no longer meets its condition.
type DepartureState string

// The states. The zero value is the state of a departure that is over: the member meets the
// condition again, or a person decided.
const (
	// DepartureLeft is the state of a member that lost the service.
	DepartureLeft DepartureState = "left"
	// DepartureHeld is the state of a member that keeps the service until a person decides.
	DepartureHeld DepartureState = "held"
)

// Departure is the fate of one cluster of a global service when its agent reported something that
// no longer meets the condition of the selection. Its JSON is its stored form.
type Departure struct {
	State DepartureState `json:"state,omitempty"`
	// Revision is the revision of the report. It makes the digest of each question another one.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// Departures are by the uid of the derived service.
type Departures map[string]Departure

// Count returns how many members have left, and how many are held.
func (d Departures) Count() (left, held int) {
	for _, departure := range d {
		switch departure.State {
		case DepartureLeft:
			left++
		case DepartureHeld:
			held++
		}
	}
	return left, held
}

// Digest returns what agrees to the removal from all members that are held, or "" if none is.
func (d Departures) Digest(globalUID string) string {
	var uids []string
	for uid, departure := range d {
		if departure.State == DepartureHeld {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 {
		return ""
	}
	slices.Sort(uids)
	e := digest.NewSequence("leat.departures.v1", globalUID)
	for _, uid := range uids {
		e.Text(uid)
		e.Number(d[uid].Revision)
	}
	return e.Digest().String()
}

// Depart returns the state of a further member that no longer meets the condition, given the uids of all
// derived services. Members that left count until a person decides, so that reports that come one by
// one take no more than the policy allows.
func (p RemovalPolicy) Depart(before Departures, members map[string]struct{}) DepartureState {
	clusters := len(members)
	left, held := before.Count()
	for uid, departure := range before {
		if _, isMember := members[uid]; !isMember && departure.State == DepartureLeft {
			clusters++
		}
	}
	if held == 0 && left < p.MaxRemoved(clusters) {
		return DepartureLeft
	}
	return DepartureHeld
}

// Members are the clusters of global services, as a store asks about them while it stores what agents
// report. They may lack what another replica has done in this moment.
type Members interface {
	// Judge returns, for each change, what it means for the global services whose condition the cluster met
	// before it, or meets after it. A transaction waits for the answer, so what all changes of a call may
	// cost is bounded.
	Judge(changes []FactsChange) [][]Judgement
}

// FactsChange is a cluster before and after a report of its agent. The two differ in what the agent reported
// alone.
type FactsChange struct{ Before, After *Cluster }

// Judgement is the meaning of a report for one global service.
type Judgement struct {
	GlobalUID string
	Removal   RemovalPolicy
	// IsMet is true if the cluster meets the condition after the report.
	IsMet bool
	// Members has the uids of the derived services there are. Nil if the condition is met.
	Members map[string]struct{}
}

// SameFacts reports whether the conditions of global services see no difference between two reports.
func SameFacts(a, b ClusterReport) bool {
	return a.KubernetesVersion == b.KubernetesVersion && a.AgentVersion == b.AgentVersion && a.Provider == b.Provider && slices.Equal(a.Capabilities, b.Capabilities)
}
