package kinds

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// addDefaults registers the defaults a controller can notice: those it reads
// back, or would otherwise keep trying to correct. Templates are defaulted
// like the pods made from them.
func addDefaults(scheme *runtime.Scheme) {
	addDefault(scheme, defaultNamespace)
	addDefault(scheme, func(pod *corev1.Pod) { defaultPodSpec(&pod.Spec) })
	addDefault(scheme, defaultService)
	addDefault(scheme, defaultEndpoints)
	addDefault(scheme, func(secret *corev1.Secret) { setDefault(&secret.Type, corev1.SecretTypeOpaque) })
	addDefault(scheme, func(claim *corev1.PersistentVolumeClaim) { defaultClaimSpec(&claim.Spec) })
	addDefault(scheme, defaultPersistentVolume)
	addDefault(scheme, defaultReplicationController)
	addDefault(scheme, defaultDeployment)
	addDefault(scheme, defaultReplicaSet)
	addDefault(scheme, defaultStatefulSet)
	addDefault(scheme, defaultDaemonSet)
	addDefault(scheme, func(job *batchv1.Job) { defaultJobSpec(&job.Spec) })
	addDefault(scheme, defaultCronJob)
	addDefault(scheme, defaultAutoscaler)
	addDefault(scheme, defaultEndpointSlice)
	addDefault(scheme, defaultNetworkPolicy)
	addDefault(scheme, defaultStorageClass)
	addDefault(scheme, func(binding *rbacv1.RoleBinding) { defaultBinding(&binding.RoleRef, binding.Subjects) })
	addDefault(scheme, func(binding *rbacv1.ClusterRoleBinding) { defaultBinding(&binding.RoleRef, binding.Subjects) })
}

func addDefault[T any, P interface {
	*T
	runtime.Object
}](scheme *runtime.Scheme, apply func(P)) {
	scheme.AddTypeDefaultingFunc(P(new(T)), func(object any) { apply(object.(P)) })
}

func setDefault[T comparable](field *T, value T) {
	*field = cmp.Or(*field, value)
}

func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}

func defaultNamespace(namespace *corev1.Namespace) {
	if namespace.Name != "" {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, corev1.LabelMetadataName, namespace.Name)
	}
}

func defaultPodSpec(spec *corev1.PodSpec) {
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefaultPointer(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	setDefaultPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	setDefaultPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
}

func defaultContainer(container *corev1.Container) {
	setDefault(&container.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&container.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	setDefault(&container.ImagePullPolicy, pullPolicy(container.Image))
	for i := range container.Ports {
		setDefault(&container.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func defaultService(service *corev1.Service) {
	spec := &service.Spec
	setDefault(&spec.Type, corev1.ServiceTypeClusterIP)
	setDefault(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		setDefault(&port.Protocol, corev1.ProtocolTCP)
		setDefault(&port.TargetPort, intstr.FromInt32(port.Port))
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	setDefaultPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		setDefault(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
}

func defaultEndpoints(endpoints *corev1.Endpoints) {
	for i := range endpoints.Subsets {
		for j := range endpoints.Subsets[i].Ports {
			setDefault(&endpoints.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	setDefaultPointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

func defaultPersistentVolume(volume *corev1.PersistentVolume) {
	setDefault(&volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	setDefaultPointer(&volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

func defaultReplicationController(controller *corev1.ReplicationController) {
	setDefaultPointer(&controller.Spec.Replicas, int32(1))
	template := controller.Spec.Template
	if template == nil {
		return
	}
	defaultPodSpec(&template.Spec)
	if len(controller.Spec.Selector) == 0 {
		controller.Spec.Selector = template.Labels
	}
	if len(controller.Labels) == 0 {
		controller.Labels = template.Labels
	}
}

func defaultDeployment(deployment *appsv1.Deployment) {
	spec := &deployment.Spec
	setDefaultPointer(&spec.Replicas, int32(1))
	setDefaultPointer(&spec.RevisionHistoryLimit, int32(10))
	setDefaultPointer(&spec.ProgressDeadlineSeconds, int32(600))
	setDefault(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setDefaultPointer(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setDefaultPointer(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setDefaultPointer(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	defaultPodSpec(&spec.Template.Spec)
}

func defaultReplicaSet(set *appsv1.ReplicaSet) {
	setDefaultPointer(&set.Spec.Replicas, int32(1))
	defaultPodSpec(&set.Spec.Template.Spec)
}

func defaultStatefulSet(set *appsv1.StatefulSet) {
	spec := &set.Spec
	setDefaultPointer(&spec.Replicas, int32(1))
	setDefaultPointer(&spec.RevisionHistoryLimit, int32(10))
	setDefault(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	// A strategy that is said, and no more of it, stays as it is.
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		setDefaultPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	rolling := spec.UpdateStrategy.RollingUpdate
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && rolling != nil {
		setDefaultPointer(&rolling.Partition, int32(0))
		setDefaultPointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	setDefaultPointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	setDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setDefault(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	defaultPodSpec(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		defaultClaimSpec(&spec.VolumeClaimTemplates[i].Spec)
	}
}

func defaultDaemonSet(set *appsv1.DaemonSet) {
	spec := &set.Spec
	setDefaultPointer(&spec.RevisionHistoryLimit, int32(10))
	setDefault(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		setDefaultPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		setDefaultPointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		setDefaultPointer(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultPodSpec(&spec.Template.Spec)
}

func defaultJobSpec(spec *batchv1.JobSpec) {
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = ptr.To(int32(1))
	}
	setDefaultPointer(&spec.Parallelism, int32(1))
	setDefaultPointer(&spec.BackoffLimit, int32(6))
	setDefaultPointer(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	setDefaultPointer(&spec.Suspend, false)
	setDefaultPointer(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	setDefaultPointer(&spec.ManualSelector, false)
	defaultPodSpec(&spec.Template.Spec)
}

func defaultCronJob(job *batchv1.CronJob) {
	setDefault(&job.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	setDefaultPointer(&job.Spec.Suspend, false)
	setDefaultPointer(&job.Spec.SuccessfulJobsHistoryLimit, int32(3))
	setDefaultPointer(&job.Spec.FailedJobsHistoryLimit, int32(1))
	defaultPodSpec(&job.Spec.JobTemplate.Spec.Template.Spec)
}

func defaultAutoscaler(autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	setDefaultPointer(&autoscaler.Spec.MinReplicas, int32(1))
}

func defaultEndpointSlice(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Ports {
		setDefaultPointer(&slice.Ports[i].Name, "")
		setDefaultPointer(&slice.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func defaultNetworkPolicy(policy *networkingv1.NetworkPolicy) {
	if len(policy.Spec.PolicyTypes) > 0 {
		return
	}
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(policy.Spec.Egress) > 0 {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func defaultStorageClass(class *storagev1.StorageClass) {
	setDefaultPointer(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	setDefaultPointer(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	setDefault(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind != rbacv1.ServiceAccountKind {
			setDefault(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
