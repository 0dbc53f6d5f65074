# SPDX-FileCopyrightText: The Leat Authors
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of this folder share.
. "$(dirname "$0")/../env.sh"
node=$here/node
home=$cache/node
# The node's control group, below which the kubelet makes those of pods; conf/kubelet.yaml names it, too.
group=leat-node
# In the node's own network, so nothing on the machine has it. The tests read it from NODE_IP.
export NODE_IP=10.212.0.1
# The version of a second image of the agent, made of the same sources, which the tests upgrade to.
export LEAT_OTHER_VERSION=$IMAGE_TAG.other
