// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// readTests adds the tests of the folder that the policy names.
func (m *Manifests) readTests(out render.Output) error {
	m.take(out)
	var tests []*unstructured.Unstructured
	for _, o := range out.Objects {
		tests = append(tests, m.place(o, tree{}))
	}
	schedule, err := order.New(tests, false)
	if err != nil {
		return err
	}
	for _, stage := range schedule.Stages {
		m.addTests(stage)
	}
	return nil
}

func (m *Manifests) addTests(stage order.Stage) {
	for _, member := range stage.Members {
		m.Tests = append(m.Tests, Test{Object: member.Object, Wave: stage.Wave, Deletion: member.Deletion})
	}
}

// separateTests takes the objects that annotations make a test out of the objects. A kustomization
// may also name files of the tests' folder: those are tests only.
func (m *Manifests) separateTests() error {
	if len(m.Tests) == 0 && !slices.ContainsFunc(m.Objects, mayBeTest) {
		return nil // as nearly always
	}
	schedule, err := order.New(m.Objects, false)
	if err != nil {
		return err
	}
	inFolder := map[inventory.Ref]bool{}
	for _, t := range m.Tests {
		inFolder[inventory.RefOf(t.Object)] = t.Object.GetName() != ""
	}
	kept := map[*unstructured.Unstructured]bool{}
	for _, o := range schedule.Skipped {
		kept[o] = true
	}
	for _, stage := range schedule.Stages {
		if stage.Phase == order.Test {
			m.addTests(stage)
			continue
		}
		for _, member := range stage.Members {
			kept[member.Object] = true
		}
	}
	m.Objects = slices.DeleteFunc(m.Objects, func(o *unstructured.Unstructured) bool {
		return !kept[o] || inFolder[inventory.RefOf(o)]
	})
	slices.SortStableFunc(m.Tests, func(a, b Test) int { return cmp.Compare(a.Wave, b.Wave) })
	return nil
}

// mayBeTest reports whether the object has annotations that may make it a test.
func mayBeTest(o *unstructured.Unstructured) bool {
	metadata, _ := o.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any) // o.GetAnnotations would copy them
	return annotations[order.LeatPhase] != nil || annotations[order.HelmHook] != nil
}
