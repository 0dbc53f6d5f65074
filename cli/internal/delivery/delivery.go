// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package delivery determines how far a service has come from commit to healthy, for everything
// that waits for a service.
package delivery

import (
	"fmt"
	"strings"
	"unicode"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Goal is a state to wait for.
type Goal string

// The goals.
const (
	Healthy Goal = "healthy" // synced, and every object is healthy
	Synced  Goal = "synced"  // the current content of the sources is applied
)

// String, Set and Type make a Goal a flag.
func (g *Goal) String() string { return string(*g) }

// Set implements pflag.Value.
func (g *Goal) Set(text string) error {
	switch Goal(text) {
	case Healthy, Synced:
		*g = Goal(text)
		return nil
	default:
		return fmt.Errorf("want %s or %s", Healthy, Synced)
	}
}

// Type implements pflag.Value.
func (g *Goal) Type() string { return string(Healthy + "|" + Synced) }

// Reached reports whether a service has reached the goal. A status for an older spec does not
// count: it describes the service before it was changed.
func (g Goal) Reached(service *fleetv1.Service) bool {
	status := service.GetStatus()
	if !status.GetSynced() || status.GetObservedGeneration() < service.GetMetadata().GetGeneration() {
		return false
	}
	return g == Synced || status.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
}

// Failed reports whether a service needs a person's attention.
func Failed(service *fleetv1.Service) bool {
	switch service.GetStatus().GetPhase() {
	case typev1.ServicePhase_SERVICE_PHASE_FAILED, typev1.ServicePhase_SERVICE_PHASE_DEGRADED:
		return true
	default:
		return false
	}
}

// Guarded reports whether a service waits until a person agrees to deletions, which only an answer
// or a change ends. A status for an older spec does not count.
func Guarded(service *fleetv1.Service) bool {
	status := service.GetStatus()
	return Failed(service) && status.GetProblem().GetReason() == errorsv1.Reason_REASON_PRUNE_GUARDED &&
		status.GetObservedGeneration() >= service.GetMetadata().GetGeneration()
}

// Describe returns a service's state in one line: "failed: REF_NOT_FOUND: no branch main".
func Describe(service *fleetv1.Service) string {
	status := service.GetStatus()
	text := document.EnumName(status.GetPhase())
	if status.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_UNSPECIFIED {
		text = "not reported yet"
	}
	if counts := status.GetReport().GetCounts(); counts.GetTotal() > 0 && status.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_PROGRESSING {
		text += fmt.Sprintf(" (%d of %d objects healthy)", counts.GetHealthy(), counts.GetTotal())
	}
	if problem := status.GetProblem(); problem != nil {
		text += ": " + document.EnumName(problem.GetReason()) + ": " + strings.Join(strings.Fields(problem.GetMessage()), " ")
	}
	return text
}

// Versions returns what a service has applied, as people quote it, or what it will apply if there is
// nothing yet: see [Quote].
func Versions(status *fleetv1.ServiceStatus) string {
	report := status.GetReport()
	commits, versions := report.GetAppliedCommits(), report.GetAppliedVersions()
	switch {
	case len(commits) == 0:
		for _, source := range status.GetSources() {
			commits = append(commits, source.GetSnapshot().GetCommit())
			versions = append(versions, source.GetSnapshot().GetVersion())
		}
	case len(versions) == 0:
		versions = versionsOf(status)
	}
	return Quote(commits, versions)
}

// versionsOf returns the versions of the applied bundles of an agent that does not report them: the
// versions of the hub's snapshots, if the agent applied these.
func versionsOf(status *fleetv1.ServiceStatus) []string {
	var versions []string
	for i, digest := range status.GetReport().GetAppliedDigests() {
		version := ""
		if sources := status.GetSources(); i < len(sources) && sources[i].GetSnapshot().GetDigest() == digest {
			version = sources[i].GetSnapshot().GetVersion()
		}
		versions = append(versions, version)
	}
	return versions
}

// Quote returns commits as people quote them, in their order: the version with the beginning of the
// commit's id, such as "4.2.1 (0f3a9c2e)", or the latter alone where there is no version. Digests of
// charts and artifacts are quoted like commits. There may be fewer versions than commits.
func Quote(commits, versions []string) string {
	quoted := make([]string, len(commits))
	for i, commit := range commits {
		quoted[i] = commit[:min(len(commit), 8)]
		if i < len(versions) && versions[i] != "" {
			quoted[i] = printable(versions[i]) + " (" + quoted[i] + ")"
		}
	}
	return strings.Join(quoted, ", ")
}

// printable replaces invisible characters: upstreams choose the names of tags, and a terminal would
// obey some of them.
func printable(version string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
	}, version)
}
