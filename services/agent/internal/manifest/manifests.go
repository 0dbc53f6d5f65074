// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// Manifests are the intended objects of a service. It belongs to its caller.
type Manifests struct {
	// Objects are the objects and hooks, in the order of the files.
	Objects []*unstructured.Unstructured
	// Origins are the places of objects and tests, for messages.
	Origins map[*unstructured.Unstructured]string
	// Tests run after everything is applied and healthy, in their order.
	Tests []Test
	// Substitution knows the texts that contain secrets of the configuration. Nil: there is no
	// configuration.
	Substitution *render.Substitution
	// Warnings are for the service's owner.
	Warnings []string
	// AsksFacts reports that the same sources may make other objects: templates read facts of the
	// cluster, or have made certificates, which end.
	AsksFacts bool
	// HasGenerated reports that templates have generated values, which are kept for the service.
	HasGenerated bool
	// Reads are the objects of the cluster that were read for the configuration and for encrypted
	// manifests: if one changes, the same sources make other objects.
	Reads Reads
	// Notice is a problem with which manifests are applied anyway. Nil: no such problem.
	Notice *reason.Problem
	// Download is how long bundles and the configuration took to arrive.
	Download time.Duration
}

// IsConfidential reports whether the object contains a secret of the configuration.
func (m Manifests) IsConfidential(o *unstructured.Unstructured) bool {
	return m.Substitution.Tainted(o.Object)
}

// conceal makes texts secrets of the service, now and after a restart.
func (m *Manifests) conceal(texts []string, given *given) {
	if len(texts) == 0 {
		return
	}
	if m.Substitution == nil {
		m.Substitution = render.NewSubstitution(render.Variables{})
	}
	m.Substitution.Conceal(texts...)
	given.next.Opened = append(given.next.Opened, texts...)
}

// take adds what a render returned besides objects.
func (m *Manifests) take(out render.Output) {
	m.Warnings = append(m.Warnings, out.Warnings...)
	m.AsksFacts = m.AsksFacts || out.Asked != (render.Asked{}) || out.Generated.HasCertificate()
	m.HasGenerated = m.HasGenerated || len(out.Generated) > 0
	if m.Substitution != nil {
		m.Substitution.Taint(out.Tainted)
	}
}

// place records the place of an object. A service of several trees names the tree, too.
func (m *Manifests) place(o render.Object, t tree) *unstructured.Unstructured {
	m.Origins[o.Unstructured] = o.Origin()
	if t.sources {
		m.Origins[o.Unstructured] += " of " + t.origin()
	}
	return o.Unstructured
}

// Test is one test of a service as its manifest defines it.
type Test struct {
	Object   *unstructured.Unstructured
	Wave     int
	Deletion order.Deletion
}
