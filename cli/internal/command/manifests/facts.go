// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/render"
)

// maxFacts bounds a file of facts. The API versions of a large cluster take some 100 KiB.
const maxFacts = 4 << 20

// addFacts puts the facts of --facts over the known facts.
func (in *input) addFacts(facts *render.ClusterFacts) error {
	if in.facts == "" {
		return nil
	}
	file, err := os.Open(in.facts)
	if err != nil {
		return failure.File(err, "The file should hold the facts of a cluster; check --facts.")
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxFacts+1))
	if err != nil {
		return failure.File(err, "The file should hold the facts of a cluster; check --facts.")
	}
	if len(text) > maxFacts {
		return failure.New(in.facts+" has more than 4 MiB", "")
	}
	var given render.ClusterFacts
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return failure.New(fmt.Sprintf("%s holds no facts: %s", in.facts, line(err.Error())),
			"The facts of a cluster are name, labels, annotations, kubernetesVersion and apiVersions.")
	}
	facts.Name = cmp.Or(given.Name, facts.Name)
	facts.KubernetesVersion = cmp.Or(given.KubernetesVersion, facts.KubernetesVersion)
	if given.Labels != nil {
		facts.Labels = given.Labels
	}
	if given.Annotations != nil {
		facts.Annotations = given.Annotations
	}
	if given.APIVersions != nil {
		facts.APIVersions = slices.Sorted(slices.Values(given.APIVersions))
	}
	return nil
}
