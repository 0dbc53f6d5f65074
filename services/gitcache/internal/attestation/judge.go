// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// MaxQuestions bounds the artifacts that one fetch asks about. The others wait for the next one.
const MaxQuestions = 64

// Question is about one artifact, that a ref leads to or led to.
type Question struct {
	Ref    string // full name
	Digest string
}

// Judge decides what the refs of a repository deliver. It serves one fetch, in one goroutine.
type Judge struct {
	Policy *Policy
	// Ledger is the earlier state; Settle replaces it.
	Ledger Ledger
	// Before are the refs that the mirror holds, with what each delivered last.
	Before mirror.Refs
	// Subject returns what an answer is about: the answer counts for every question with the same
	// subject.
	Subject func(q Question) string
	// Fits returns why a good verdict does not count for a ref, as a phrase that follows the digest.
	// Nil: it always does.
	Fits func(ref string, v Verdict) string
	// Ask asks the upstream. A missing or bad signature is a verdict; an error ends Settle. Only Why
	// and Version of the verdict are used.
	Ask func(ctx context.Context, q Question) (Verdict, error)
	// About reports whether the upstream may be asked about a ref. Nil: about every one.
	About func(ref string) bool
	// Again reports whether to ask again now, however long the pause is, because there may be news
	// of a digest. Nil: there never is.
	Again func(digest string) bool
	Now   time.Time
	// Metrics counts questions. Nil: they are not counted.
	Metrics *Metrics

	asked   int
	retries map[string]bool // subjects to ask about again, after a bad answer
	seen    map[string]bool // subjects whose verdicts stay
	next    time.Time       // of the next question; zero: there is none
}

// HasAsked reports whether Settle asked the upstream anything, so that the ledger has news.
func (j *Judge) HasAsked() bool { return j.asked > 0 }

// NextQuestion returns when the next question is due, now if Settle left one out. False: there is none.
func (j *Judge) NextQuestion() (time.Time, bool) { return j.next, !j.next.IsZero() }

// Settle returns refs with what each delivers. The upstream is asked about the wanted ones, at most
// [MaxQuestions] times. The other refs are held back as mirror.NotVerified. A ref whose artifact is
// not signed delivers what it delivered before, if the policy accepts that. New refs come before
// ones that were asked about, so that bad answers do not keep others from being found.
//
// Refs may be held back already as mirror.Republished: these deliver the artifact that they were first,
// if that is signed. Refs without a digest stay as they are. The ledger forgets artifacts that no ref
// leads to.
func (j *Judge) Settle(ctx context.Context, refs mirror.Refs) (mirror.Refs, error) {
	j.Ledger, j.seen = j.Ledger.under(j.Policy.fingerprint), map[string]bool{}
	j.retries = j.planRetries(refs)
	settled := make(mirror.Refs, 0, len(refs))
	isListed := make(map[string]bool, len(refs))
	for _, ref := range refs {
		isListed[ref.Name] = true
		if ref.Commit != "" {
			var err error
			if ref, err = j.settle(ctx, ref); err != nil {
				return nil, err
			}
		}
		settled = append(settled, ref)
	}
	maps.DeleteFunc(j.Ledger.Verdicts, func(subject string, _ Verdict) bool { return !j.seen[subject] })
	maps.DeleteFunc(j.Ledger.Good, func(name, _ string) bool { return !isListed[name] })
	maps.DeleteFunc(j.Ledger.Wanted, func(name string, _ time.Time) bool { return !isListed[name] || !j.Ledger.isWanted(name, j.Now) })
	return settled, nil
}

// planRetries returns the subjects to ask about again: those due whose last question was longest ago,
// as many as the questions about what was never asked leave room for.
func (j *Judge) planRetries(refs mirror.Refs) map[string]bool {
	room := MaxQuestions
	due := map[string]time.Time{} // by subject
	for _, ref := range refs {
		q := Question{ref.Name, ref.Commit}
		if ref.Commit == "" || ref.Held == mirror.Republished || !j.mayAsk(q) {
			continue
		}
		subject := j.Subject(q)
		v, isKnown := j.Ledger.Verdicts[subject]
		switch {
		case !isKnown:
			room--
		case j.isRetryDue(q, v):
			due[subject] = v.Asked
		}
	}
	subjects := slices.SortedFunc(maps.Keys(due), func(a, b string) int { return cmp.Or(due[a].Compare(due[b]), cmp.Compare(a, b)) })
	planned := map[string]bool{}
	for _, subject := range subjects[:max(0, min(room, len(subjects)))] {
		planned[subject] = true
	}
	return planned
}

// mayAsk reports whether the upstream may be asked about an artifact.
func (j *Judge) mayAsk(q Question) bool {
	return j.Ledger.isWanted(q.Ref, j.Now) && (j.About == nil || j.About(q.Ref))
}

// isRetryDue reports whether it is time to ask again about an artifact with a verdict.
func (j *Judge) isRetryDue(q Question, v Verdict) bool {
	return !v.IsGood() && (!j.Now.Before(v.dueAt()) || j.Again != nil && j.Again(q.Digest))
}

// settle decides about a ref that leads to an artifact.
func (j *Judge) settle(ctx context.Context, ref mirror.Ref) (mirror.Ref, error) {
	first := ""
	if ref.Held == mirror.Republished {
		first = ref.GoodCommit
	} else {
		why, err := j.rejection(ctx, Question{ref.Name, ref.Commit}, true)
		if err != nil {
			return ref, err
		}
		ref.Held = why
	}
	ref.GoodObject, ref.GoodCommit = "", ""
	if ref.Held == "" {
		delete(j.Ledger.Good, ref.Name)
		return ref, nil
	}
	for _, digest := range j.candidates(ref, first) {
		why, err := j.rejection(ctx, Question{ref.Name, digest}, false)
		if err != nil {
			return ref, err
		}
		if why == "" {
			ref.GoodObject, ref.GoodCommit = digest, digest
			j.Ledger.Good[ref.Name] = digest
			return ref, nil
		}
	}
	return ref, nil
}

// candidates returns what a ref that is held back may deliver instead, the best first. first is the
// first target of the ref of an immutable repository, which excludes all others.
func (j *Judge) candidates(ref mirror.Ref, first string) []string {
	before, _ := j.Before.Get(ref.Name)
	candidates := []string{before.Delivered(), before.Commit, j.Ledger.Good[ref.Name]}
	if ref.Held == mirror.Republished {
		candidates = []string{first}
	}
	var all []string
	for _, digest := range candidates {
		if digest != "" && digest != ref.Commit {
			all = append(all, digest)
		}
	}
	return all
}

// rejection returns why an artifact is not delivered, or "". Where the answer is not known, or planned
// to be found again, the upstream is asked.
func (j *Judge) rejection(ctx context.Context, q Question, again bool) (string, error) {
	subject := j.Subject(q)
	v, isKnown := j.Ledger.Verdicts[subject]
	if (!isKnown || again && j.retries[subject]) && j.mayAsk(q) && j.asked < MaxQuestions {
		j.asked++
		delete(j.retries, subject)
		answer, err := j.Ask(ctx, q)
		j.Metrics.asked(ctx, answer, err)
		if err != nil {
			return "", err
		}
		v, isKnown = v.replace(answer, j.Now), true
		j.Ledger.Verdicts[subject] = v
	}
	isWanted := j.Ledger.isWanted(q.Ref, j.Now)
	if isKnown && (v.IsGood() || isWanted) {
		j.seen[subject] = true
	}
	if isWanted && again && (!isKnown || !v.IsGood()) {
		j.expect(v)
	}
	switch {
	case !isKnown, !v.IsGood() && !isWanted: // no caller asks about it any more
		return mirror.NotVerified, nil
	case v.IsGood() && j.Fits != nil:
		return j.Fits(q.Ref, v), nil
	}
	return v.Why, nil
}

// expect notes when an artifact is to be asked about that has a bad verdict, or none: that is the zero
// one, whose time is over.
func (j *Judge) expect(v Verdict) {
	at := v.dueAt()
	if at.Before(j.Now) {
		at = j.Now
	}
	if j.next.IsZero() || at.Before(j.next) {
		j.next = at
	}
}

// FitsTag is a Judge's Fits for OCI repositories: a chart that was signed as one version does not
// become another one by a tag. Tags that are not versions may lead to any.
func FitsTag(ref string, v Verdict) string {
	tag, isTag := strings.CutPrefix(ref, mirror.TagPrefix)
	tag = strings.Replace(tag, "_", "+", 1) // which tags cannot have
	_, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	if v.Version == "" || !isTag || err != nil || tag == v.Version || strings.TrimPrefix(tag, "v") == strings.TrimPrefix(v.Version, "v") {
		return ""
	}
	return fmt.Sprintf("was signed as version %.80q", v.Version)
}
