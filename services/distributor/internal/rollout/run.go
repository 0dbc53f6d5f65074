// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is where a run stands.
type State string

// The states. A run in one of the last four has ended.
const (
	Running State = "running"
	// Paused is a run that a person stopped for now.
	Paused State = "paused"
	// Halted is a run that stopped because members failed. It waits for a person.
	Halted State = "halted"
	// RollingBack is a run whose members go back to what they had.
	RollingBack State = "rollingBack"
	Completed   State = "completed"
	RolledBack  State = "rolledBack"
	// Aborted is a run that a person ended. Members keep what they have.
	Aborted State = "aborted"
	// Replaced is a run that a newer candidate ended. Members keep what they have.
	Replaced State = "replaced"
)

// HasEnded reports whether a run in that state never changes again.
func (s State) HasEnded() bool {
	return s == Completed || s == RolledBack || s == Aborted || s == Replaced
}

// Candidate names what members are to run.
type Candidate struct {
	// ID names the run.
	ID string `json:"id"`
	// Generation counts the candidates of a policy, from 1.
	Generation int64 `json:"generation"`
	// Authors are the persons who wrote a part of what members are to run, sorted. The caller knows them.
	Authors []string `json:"authors,omitempty"`
}

// Member is one service as a run begins with it.
type Member struct {
	UID string `json:"uid"`
	// Name and Cluster are paths.
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	// Labels are the service's.
	Labels        map[string]string `json:"labels,omitempty"`
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// From names the content that the member has when nothing is admitted, and To that of the candidate.
	// Equal ones mean that the candidate does not change the member, which then only counts among those
	// that may be unavailable.
	From string `json:"from"`
	To   string `json:"to"`
}

// Health is what a member's agent says of the content that the report is about.
type Health string

// The kinds of health. The empty one is unknown.
const (
	Healthy     Health = "healthy"
	Progressing Health = "progressing"
	Failing     Health = "failing"
)

// Progress is what is known of one member.
type Progress struct {
	UID     string `json:"uid"`
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Wave is an index of Run.Waves, or -1 for a member that the candidate does not change.
	Wave int `json:"wave"`
	// Order sorts the members of a wave.
	Order string `json:"order,omitempty"`
	// IsFresh is true of a member that joined late, until it is available for the first time: what was
	// never available is not missed.
	IsFresh bool `json:"isFresh,omitempty"`

	// Has names the content that the last report was about, and Health is what it said.
	Has    string `json:"has,omitempty"`
	Health Health `json:"health,omitempty"`
	// FailingSince is since when Health is Failing with that content. Zero: it is not.
	FailingSince time.Time `json:"failingSince,omitzero"`
	IsOnline     bool      `json:"isOnline,omitempty"`
	// OnlineSince is since when IsOnline has its value.
	OnlineSince time.Time `json:"onlineSince,omitzero"`

	IsAdmitted bool      `json:"isAdmitted,omitempty"`
	AdmittedAt time.Time `json:"admittedAt,omitzero"`
	// IsWithdrawn is true of a member that was admitted and went back.
	IsWithdrawn bool `json:"isWithdrawn,omitempty"`
	// WasUp is true if the member was available when it was admitted.
	WasUp bool `json:"wasUp,omitempty"`
	// UnsettledSince is since when the member does not have what it should, healthily. Zero: it does.
	UnsettledSince time.Time `json:"unsettledSince,omitzero"`
	// FailedAt is when the member counted as failed. Zero: it did not.
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Why is what the agent reported when the member last began to fail, or how it counted as failed. It is
	// kept when the member goes back, and ends when it is admitted.
	Why string `json:"why,omitempty"`
	// Seq is the number of the event that changed the member last.
	Seq int64 `json:"seq,omitempty"`
}

// wants returns the content that the member should have.
func (p *Progress) wants() string {
	if p.IsAdmitted {
		return p.To
	}
	return p.From
}

// isUp reports whether the member is available: it has what it should, healthily, and can be seen.
func (p *Progress) isUp() bool {
	return p.IsOnline && p.Health == Healthy && p.Has == p.wants()
}

// isChanged reports whether the candidate changes the member.
func (p *Progress) isChanged() bool { return p.Wave >= 0 }

// isOfflineFor reports whether the member's cluster has been offline for so long.
func (p *Progress) isOfflineFor(d time.Duration, now time.Time) bool {
	return !p.IsOnline && now.Sub(p.OnlineSince) >= d
}

// WaveState is where a wave stands.
type WaveState struct {
	Name string `json:"name"`
	// IsEmpty is true of a wave whose selectors fitted no member of the run when it began, not even one
	// that the candidate does not change: most often they are misspelt. Nobody shows in it that the
	// candidate works, so the run waits there for a person, or for a member that they fit.
	IsEmpty bool `json:"isEmpty,omitempty"`
	// SoakSince is since when all members of the wave are healthy without a break.
	SoakSince time.Time `json:"soakSince,omitzero"`
	// AskedAt is when people were asked for their approval.
	AskedAt   time.Time `json:"askedAt,omitzero"`
	Approvals []Given   `json:"approvals,omitempty"`
	// PassedAt is when the next wave could begin, and IsSkipped is true if a person had it so.
	PassedAt  time.Time `json:"passedAt,omitzero"`
	IsSkipped bool      `json:"isSkipped,omitempty"`
}

// Given is one person's approval.
type Given struct {
	Person string    `json:"person"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Seq    int64     `json:"seq"`
}

// Run is one rollout. Its JSON is its stored form: a run that was stored and read again decides as the
// run that was not.
type Run struct {
	Candidate Candidate `json:"candidate"`
	Strategy  Strategy  `json:"strategy"`
	State     State     `json:"state"`
	// IsBack is true once the run's direction is back.
	IsBack bool `json:"isBack,omitempty"`
	// Why says why the run is not running; empty while it is.
	Why       string    `json:"why,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Now is the latest time that the run was told.
	Now time.Time `json:"now"`
	// Seq counts the events, and Decided the decisions.
	Seq     int64 `json:"seq"`
	Decided int64 `json:"decided"`
	// Ticked is the number of the last tick: what came after it has not been looked at yet.
	Ticked int64 `json:"ticked"`
	// Cursor is the index of the current wave; it is len(Waves) once all have passed.
	Cursor int         `json:"cursor"`
	Waves  []WaveState `json:"waves"`
	// Members are sorted by wave and order; those that the candidate does not change come first.
	Members []Progress `json:"members"`
	// Blocked is what the run waited for at the last tick.
	Blocked Blocked `json:"blocked,omitzero"`
	// WakeAt is the time that the last Wake named.
	WakeAt time.Time `json:"wakeAt,omitzero"`
	// TurnedBy are the events because of which the run halted or went back.
	TurnedBy []int64 `json:"turnedBy,omitempty"`
}

// MaxMembers bounds the members of one run.
const MaxMembers = 20_000

// Errors of Begin.
var (
	ErrNoMembers   = errors.New("the candidate changes no member")
	ErrManyMembers = fmt.Errorf("a rollout has at most %d members", MaxMembers)
)

// Begin returns a run of the candidate. Members are sorted into their waves once: later changes of
// labels move nobody. The error is ErrNoMembers, ErrManyMembers, or says what is wrong with a member.
func Begin(c Candidate, s Strategy, members []Member, at time.Time) (Run, error) {
	if len(members) > MaxMembers {
		return Run{}, ErrManyMembers
	}
	at = at.UTC()
	r := Run{Candidate: c, Strategy: s.withDefaults(), State: Running, StartedAt: at, Now: at}
	for _, wave := range append(slices.Clone(s.Waves), Wave{Name: WaveRest}, Wave{Name: WaveLate}) {
		r.Waves = append(r.Waves, WaveState{Name: wave.Name, IsEmpty: wave.selects() && !slices.ContainsFunc(members, wave.fits)})
	}
	waves := assign(c.ID, s.Waves, members)
	isChanged := false
	seen := map[string]bool{}
	for i, m := range members {
		if m.UID == "" || m.From == "" || m.To == "" || seen[m.UID] {
			return Run{}, fmt.Errorf("member %q needs a uid of its own and both contents", m.Name)
		}
		seen[m.UID] = true
		isChanged = isChanged || waves[i].index >= 0
		r.Members = append(r.Members, newProgress(m, waves[i], at))
	}
	if !isChanged {
		return Run{}, ErrNoMembers
	}
	r.sort()
	return r, nil
}

// newProgress returns a member of which nothing is known. Its cluster counts as offline since now.
func newProgress(m Member, p place, at time.Time) Progress {
	return Progress{
		UID: m.UID, Name: m.Name, Cluster: m.Cluster, From: m.From, To: m.To, Wave: p.index, Order: p.order,
		OnlineSince: at, UnsettledSince: at,
	}
}

// wave returns the strategy of the wave at an index of Waves.
func (r *Run) wave(i int) Wave {
	if i < len(r.Strategy.Waves) {
		return r.Strategy.Waves[i]
	}
	return Wave{Name: r.Waves[i].Name}
}

// missing returns how many more people have to approve what comes after a wave.
func (r *Run) missing(wave int) int {
	return max(r.wave(wave).Approval.Needed()-len(r.Waves[wave].Approvals), 0)
}

// late returns the index of the wave of those that joined later.
func (r *Run) late() int { return len(r.Waves) - 1 }

// Current returns the name of the current wave; empty once all have passed.
func (r *Run) Current() string {
	if r.Cursor >= len(r.Waves) {
		return ""
	}
	return r.Waves[r.Cursor].Name
}

// Limit returns how many members may be unavailable.
func (r *Run) Limit() int { return r.Strategy.MaxUnavailable.of(len(r.Members)) }

// Unavailable counts the members that are not available, for any reason.
func (r *Run) Unavailable() int {
	n := 0
	for i := range r.Members {
		if p := &r.Members[i]; !p.isUp() && !p.IsFresh {
			n++
		}
	}
	return n
}

// clone returns a run that shares nothing that changes with r.
func (r Run) clone() Run {
	r.Members, r.Waves = slices.Clone(r.Members), slices.Clone(r.Waves)
	for i := range r.Waves {
		r.Waves[i].Approvals = slices.Clone(r.Waves[i].Approvals)
	}
	return r
}
