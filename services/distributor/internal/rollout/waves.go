// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// place is a member's place in a run.
type place struct {
	index int
	order string
}

// orderOf returns a text that sorts members as the wave wants it, and else differently in each run.
func orderOf(run string, w Wave, m Member) string {
	sum := sha256.Sum256([]byte(run + "\x00" + m.UID))
	hash := hex.EncodeToString(sum[:])
	if w.OrderBy == "" {
		return hash
	}
	return m.ClusterLabels[w.OrderBy] + "\x00" + hash
}

// assign returns the place of each member. Waves take their members one after the other.
func assign(run string, waves []Wave, members []Member) []place {
	places := make([]place, len(members))
	var free []int
	for i, m := range members {
		places[i] = place{index: -1}
		if m.From != m.To {
			free = append(free, i)
		}
	}
	changed := len(free)
	for index, wave := range waves {
		places, free = takeWave(run, index, wave, members, places, free, changed)
	}
	for _, i := range free {
		places[i] = place{index: len(waves), order: orderOf(run, Wave{}, members[i])}
	}
	return places
}

// takeWave gives a wave its members among the free ones, and returns the others.
func takeWave(run string, index int, wave Wave, members []Member, places []place, free []int, changed int) ([]place, []int) {
	var fitting []int
	orders := map[int]string{}
	for _, i := range free {
		if wave.Fits(members[i]) {
			fitting, orders[i] = append(fitting, i), orderOf(run, wave, members[i])
		}
	}
	slices.SortFunc(fitting, func(a, b int) int { return cmp.Compare(orders[a], orders[b]) })
	limit, taken, each := len(fitting), 0, map[string]int{}
	if wave.Percent > 0 {
		limit = percentOf(wave.Percent, changed)
	}
	for _, i := range fitting {
		value := ""
		if wave.EachOf != "" {
			value = members[i].ClusterLabels[wave.EachOf]
		}
		if taken >= limit || wave.EachOf != "" && each[value] >= max(wave.Count, 1) {
			continue
		}
		taken++
		each[value]++
		places[i] = place{index: index, order: orders[i]}
	}
	return places, slices.DeleteFunc(free, func(i int) bool { return places[i].index >= 0 })
}

// Selects reports whether the wave has selectors.
func (w Wave) Selects() bool { return len(w.Clusters)+len(w.Labels) > 0 }

// Fits reports whether the wave's selectors fit the member.
func (w Wave) Fits(m Member) bool {
	if len(w.Clusters) > 0 && !slices.Contains(w.Clusters, m.Cluster) {
		return false
	}
	for key, want := range w.Labels {
		service, isService := m.Labels[key]
		cluster, isCluster := m.ClusterLabels[key]
		if (!isService || service != want) && (!isCluster || cluster != want) {
			return false
		}
	}
	return true
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
	// From names the content that the member has when nothing is admitted, and To the candidate's
	// content. Equal ones mean that the candidate does not change the member, which then only counts
	// among the ones that may be unavailable.
	From string `json:"from"`
	To   string `json:"to"`
}
