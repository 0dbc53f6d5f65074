// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is the state of a run.
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

// Health is the health, by a member's agent, of the content that the report is about.
type Health string

// The kinds of health. The empty one is unknown.
const (
	Healthy     Health = "healthy"
	Progressing Health = "progressing"
	Failing     Health = "failing"
)

// Trouble is since when a member fails, and why.
type Trouble struct {
	// FailingSince is since when Health is Failing with the content that the member has. Zero: it is not.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// FailedAt is when the member counted as failed. Zero: it did not.
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Why is the agent's reason when the member last began to fail, or how it counted as failed. It is
	// kept when the member goes back, and ends when it is admitted.
	Why string `json:"why,omitempty"`
}

// Progress is the progress of one member.
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

	// Has names the content that the last report was about, and Health is its verdict.
	Has      string `json:"has,omitempty"`
	Health   Health `json:"health,omitempty"`
	IsOnline bool   `json:"isOnline,omitempty"`
	// IsHeld is true if it is not online because a person holds it, and not because its cluster is silent.
	IsHeld bool `json:"isHeld,omitempty"`
	// OnlineSince is since when IsOnline has its value, or since when nobody holds the member.
	OnlineSince time.Time `json:"onlineSince,omitzero"`

	IsAdmitted bool      `json:"isAdmitted,omitempty"`
	AdmittedAt time.Time `json:"admittedAt,omitzero"`
	// IsWithdrawn is true of a member that was admitted and went back.
	IsWithdrawn bool `json:"isWithdrawn,omitempty"`
	// WasUp is true if the member was available when it was admitted.
	WasUp bool `json:"wasUp,omitempty"`
	// UnsettledSince is since when the member does not have what it should, healthily. Zero: it does.
	UnsettledSince time.Time `json:"unsettledSince,omitzero"`
	Trouble
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

// isDown reports whether the member is missed: it is not available, and it was once, or should be.
func (p *Progress) isDown() bool { return !p.isUp() && !p.IsFresh }

// isChanged reports whether the candidate changes the member.
func (p *Progress) isChanged() bool { return p.Wave >= 0 }

// isOfflineFor reports whether the member's cluster has been offline for so long.
func (p *Progress) isOfflineFor(d time.Duration, now time.Time) bool {
	return !p.IsOnline && now.Sub(p.OnlineSince) >= d
}

// isSilent reports whether the member's cluster was seen after the member was admitted, and is not seen now.
// A member is admitted either online or after it was offline for long, so a silence that began at the
// moment of its admission began after it.
func (p *Progress) isSilent() bool {
	return p.IsAdmitted && !p.IsOnline && !p.IsHeld && !p.OnlineSince.Before(p.AdmittedAt)
}

// WaveState is the state of a wave.
type WaveState struct {
	Name string `json:"name"`
	// IsEmpty is true of a wave whose selectors fitted no member of the run when it began, not even
	// one that the candidate does not change: most often they are misspelt. No member shows in it that
	// the candidate works, so the run waits there for a person, or for a member that they fit.
	IsEmpty bool `json:"isEmpty,omitempty"`
	// SoakSince is since when all members of the wave are healthy without a break.
	SoakSince time.Time `json:"soakSince,omitzero"`
	// AskedAt is when people were asked for their approval.
	AskedAt   time.Time `json:"askedAt,omitzero"`
	Approvals []Given   `json:"approvals,omitempty"`
	// PassedAt is when the next wave could begin, and IsSkipped is true if a person had it so.
	PassedAt  time.Time `json:"passedAt,omitzero"`
	IsSkipped bool      `json:"isSkipped,omitempty"`
	// Total and Arrived count its members, as Counts does for the run.
	Total   int `json:"total,omitempty"`
	Arrived int `json:"arrived,omitempty"`
}

// Given is one person's approval.
type Given struct {
	Person string    `json:"person"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Seq    int64     `json:"seq"`
}

// Counts are the counts of the members after the last event.
type Counts struct {
	// Members are all, and Total the ones that the candidate changes.
	Members int `json:"members"`
	Total   int `json:"total"`
	// Arrived counts members that have the candidate and are healthy, and Failed the ones that count
	// as failed.
	Arrived int `json:"arrived,omitempty"`
	Failed  int `json:"failed,omitempty"`
	// Unavailable are the members that are not available, for any reason.
	Unavailable int `json:"unavailable,omitempty"`
}

// Stop is why a run is not running. It is empty while the run is.
type Stop struct {
	Why string `json:"why,omitempty"`
	// Failures are the first of the members that failed, and Failed how many did, where the run halted or
	// went back because of them.
	Failures []Failure `json:"failures,omitempty"`
	Failed   int       `json:"failed,omitempty"`
	// Until is when a pause ends by itself. Zero: a person ends it.
	Until time.Time `json:"until,omitzero"`
}

// Failure is a member that failed.
type Failure struct {
	Name string `json:"name"`
	// Why is its agent's reason, or how it counted as failed.
	Why string `json:"why,omitempty"`
}

// Header is a run without its members.
type Header struct {
	Candidate Candidate `json:"candidate"`
	Strategy  Strategy  `json:"strategy"`
	State     State     `json:"state"`
	// IsBack is true once the run's direction is back.
	IsBack bool `json:"isBack,omitempty"`
	Stop
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Now is the latest time that the run was told.
	Now time.Time `json:"now"`
	// Seq counts the events, and Decided the decisions.
	Seq     int64 `json:"seq"`
	Decided int64 `json:"decided"`
	// Ticked is the number of the last tick: later events were not considered yet.
	Ticked int64 `json:"ticked"`
	// Cursor is the index of the current wave; it is len(Waves) once all have passed.
	Cursor int         `json:"cursor"`
	Waves  []WaveState `json:"waves"`
	Counts Counts      `json:"counts"`
	// Blocked is the reason why the run waited at the last tick.
	Blocked Blocked `json:"blocked,omitzero"`
	// WakeAt is the time that the last Wake named.
	WakeAt time.Time `json:"wakeAt,omitzero"`
	// TurnedBy are the events because of which the run halted or went back.
	TurnedBy []int64 `json:"turnedBy,omitempty"`
}

// Run is one rollout. Its JSON is a stored form: a run that was stored and read again decides as the run
// that was not.
type Run struct {
	Header

	// Members are sorted by wave and order; unchanged ones come first. The states of a run share the
	// members that did not change between them, so a member never changes: an event puts another one
	// in its place.
	Members []*Progress `json:"members,omitempty"`
}

// With returns the run of a header and its members, in any order.
func (h Header) With(members []*Progress) Run {
	r := Run{Header: h, Members: members}.clone()
	slices.SortFunc(r.Members, compareMembers)
	r.count()
	return r
}

// MaxMembers bounds the members of one run.
const MaxMembers = 200_000

// Errors of Begin.
var (
	ErrNoMembers   = errors.New("the candidate changes no member")
	ErrManyMembers = fmt.Errorf("a rollout has at most %d members", MaxMembers)
)

// Begin returns a run of the candidate. Members are sorted into their waves once: later changes of
// labels move no member. The error is ErrNoMembers, ErrManyMembers, or about a member's defect.
func Begin(c Candidate, s Strategy, members []Member, at time.Time) (Run, error) {
	if len(members) > MaxMembers {
		return Run{}, ErrManyMembers
	}
	at = at.UTC()
	r := Run{Header: Header{Candidate: c, Strategy: s.withDefaults(), State: Running, StartedAt: at, Now: at}}
	for _, wave := range append(slices.Clone(s.Waves), Wave{Name: WaveRest}, Wave{Name: WaveLate}) {
		r.Waves = append(r.Waves, WaveState{Name: wave.Name, IsEmpty: wave.Selects() && !slices.ContainsFunc(members, wave.Fits)})
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
	slices.SortFunc(r.Members, compareMembers)
	r.count()
	return r, nil
}

// newProgress returns a member of which nothing is known. Its cluster counts as offline since now.
func newProgress(m Member, p place, at time.Time) *Progress {
	return &Progress{
		UID: m.UID, Name: m.Name, Cluster: m.Cluster, From: m.From, To: m.To, Wave: p.index, Order: p.order,
		OnlineSince: at, UnsettledSince: at,
	}
}

// compareMembers orders members by their waves. The fields that it compares never change.
func compareMembers(a, b *Progress) int {
	return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Order, b.Order), cmp.Compare(a.UID, b.UID))
}

// wave returns the strategy of the wave at an index of Waves.
func (h *Header) wave(i int) Wave {
	if i < len(h.Strategy.Waves) {
		return h.Strategy.Waves[i]
	}
	return Wave{Name: h.Waves[i].Name}
}

// missing returns how many more people have to approve what comes after a wave.
func (h *Header) missing(wave int) int {
	return max(h.wave(wave).Approval.Needed()-len(h.Waves[wave].Approvals), 0)
}

// late returns the index of the wave of the ones that joined later.
func (h *Header) late() int { return len(h.Waves) - 1 }

// Current returns the name of the current wave; empty once all have passed.
func (h *Header) Current() string {
	if h.Cursor >= len(h.Waves) {
		return ""
	}
	return h.Waves[h.Cursor].Name
}

// Limit returns how many members may be unavailable.
func (h *Header) Limit() int { return h.Strategy.MaxUnavailable.of(h.Counts.Members) }

// Unavailable counts the members that are not available, for any reason.
func (r *Run) Unavailable() int {
	n := 0
	for _, p := range r.Members {
		if p.isDown() {
			n++
		}
	}
	return n
}

// count counts the members.
func (r *Run) count() {
	r.Counts = Counts{Members: len(r.Members)}
	for i := range r.Waves {
		r.Waves[i].Total, r.Waves[i].Arrived = 0, 0
	}
	for _, p := range r.Members {
		isUp := p.isUp()
		if !isUp && !p.IsFresh {
			r.Counts.Unavailable++
		}
		if !p.isChanged() {
			continue
		}
		r.Counts.Total++
		r.Waves[p.Wave].Total++
		switch {
		case !p.IsAdmitted:
		case isUp:
			r.Counts.Arrived++
			r.Waves[p.Wave].Arrived++
		case !p.FailedAt.IsZero():
			r.Counts.Failed++
		}
	}
}

// clone returns a run that shares nothing that changes with r.
func (r Run) clone() Run {
	r.Members, r.Waves = slices.Clone(r.Members), slices.Clone(r.Waves)
	for i := range r.Waves {
		r.Waves[i].Approvals = slices.Clone(r.Waves[i].Approvals)
	}
	return r
}

// Differ returns the members of next that are not as in last, and the uids of members that have
// left since. next was made of last by events, so members that did not change are the same in both.
func Differ(last, next Run) (changed []*Progress, left []string) {
	before := last.Members
	for _, p := range next.Members {
		for len(before) > 0 && compareMembers(before[0], p) < 0 {
			left, before = append(left, before[0].UID), before[1:]
		}
		isThere := len(before) > 0 && before[0].UID == p.UID
		if !isThere || before[0] != p {
			changed = append(changed, p)
		}
		if isThere {
			before = before[1:]
		}
	}
	for _, p := range before {
		left = append(left, p.UID)
	}
	return changed, left
}

// Blocked describes what a run waits for.
type Blocked struct {
	By BlockedBy `json:"by,omitempty"`
	// Names are members, or the groups of which a person has to approve.
	Names []string `json:"names,omitempty"`
	// Until is when a time has come; zero for other waits.
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// BlockedBy is the kind of thing that a run waits for.
type BlockedBy string

// The kinds of things that a run waits for. A run that waits for members may also continue by
// itself, when their time is over.
const (
	ByMember BlockedBy = "member"
	ByPerson BlockedBy = "person"
	ByTime   BlockedBy = "time"
)
