// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Conflict is a field that a manifest sets to one value and that another manager holds at another.
type Conflict struct {
	Manager string
	// Field is the API server's name of it, such as .spec.containers[name="app"].image.
	Field string
}

// ConflictProblem says in a text, too, what conflicts there are.
func ConflictProblem(conflicts []Conflict) *Problem {
	problem := problemf(ApplyConflict, "%s; remove the fields from the manifest, or say in the service's policy (conflicts, ignore) whose they are",
		held(conflicts, "owns"))
	problem.Conflicts = conflicts
	return problem
}

// held says which manager holds which fields.
func held(conflicts []Conflict, verb string) string {
	const enough = 8
	var parts []string
	for _, manager := range managersOf(conflicts) {
		var names []string
		for _, c := range conflicts {
			if c.Manager == manager {
				names = append(names, fields.Legible(c.Field))
			}
		}
		slices.Sort(names)
		if len(names) > enough {
			names = append(names[:enough], fmt.Sprintf("%d more", len(names)-enough))
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", manager, verb, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// managersOf lists the managers of conflicts, each once, in order.
func managersOf(conflicts []Conflict) []string {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.Manager)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf(conflicts []Conflict) []string {
	var names []string
	for _, c := range conflicts {
		names = append(names, c.Field)
	}
	return names
}

// tellYielded says that fields of an object are left to others.
func (r *run) tellYielded(ctx context.Context, o *unstructured.Unstructured, conflicts []Conflict) {
	r.tell(ctx, inventory.RefOf(o), "some fields are left to others: "+held(conflicts, "keeps"))
}

// tell says something about an object to whoever watches, and to the log.
func (r *run) tell(ctx context.Context, ref inventory.Ref, message string) {
	r.unit.mu.Lock()
	phase := r.unit.status.Phase
	r.unit.mu.Unlock()
	r.engine.params.Logger.InfoContext(ctx, "object was applied with a decision", slog.String("leat.service", r.service.Name),
		slog.String("object", ref.String()), slog.String("decision", message))
	r.engine.events.publish(Event{Time: time.Now(), Service: r.service.Name, Phase: phase, Object: &ref, Message: message})
}
